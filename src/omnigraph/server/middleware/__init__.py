"""Plain ASGI middleware: nothing here buffers a response or hides a disconnect."""
