"""HTTP for the routes: parsing requests, sending responses and event streams, errors, OpenAPI. Knows no runs."""
