"""The only code that touches Lance or the object store."""

from omnigraph.settings import prepare_process

prepare_process()
