"""The web page: its built files are in ``static``, made from ``web/`` by ``make web``. The server serves them."""
