"""The data pipeline on Apache Spark: another way to produce staged writes, at any size.

It shares the validator, the staging primitives and the commit with the in-process lane. The only
package that imports PySpark; nothing of it is imported before a job needs it.
"""

from omnigraph.pipeline.datasource.registration import register

__all__ = ["register"]
