"""Bodies of requests and answers, by resource; the OpenAPI document is made from these models."""
