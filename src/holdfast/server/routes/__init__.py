"""One file per resource. A route translates a request into a call of a service, and its result into a response."""
