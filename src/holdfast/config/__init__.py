"""Configuration: where things live, what is set and by whom, which models there are, whom to trust with what.

The contract:

- `load_config` joins the layers into frozen, typed `Settings`; each value knows its origin, and everything wrong is
  said at once, with file, line, key and the nearest known name.
- A project's file counts only after its directory is trusted, never names a key, never sends one elsewhere, never
  takes a rule away that the user made.
- A key is a `Secret` from the moment it is read: no repr, message or log shows it. `Keyring` is the one place that
  fetches keys, and its `redactor` takes what it saw out of everything that leaves.
- Files are written whole or not at all, and changes by several processes follow one another.

What it does not know: HTTP (discovery is `models/`'s), sessions and runs, and what approval rules mean. Reading and
writing block on small files; code on the event loop calls them in a thread. `schema` and `edit` are imported by who
needs them.
"""

from holdfast.config.layers import Config, load_config, plain
from holdfast.config.model_catalogue import ActiveProvider, Catalogue, ResolvedModel, resolve_model, search_key
from holdfast.config.project_settings import project_files
from holdfast.config.provider_catalogue import PROVIDERS, CatalogueModel, CatalogueProvider, Price
from holdfast.config.redaction import Redactor, StreamRedactor
from holdfast.config.secrets import Keyring, SecretStore, find_source
from holdfast.config.setting_checks import configured_secrets, secret_variables
from holdfast.config.setting_sources import Origin
from holdfast.config.settings import Settings
from holdfast.config.trust import TrustStore
from holdfast.config.value_types import Duration, KeySource, Secret, format_duration, parse_duration
from holdfast.locations import Locations

__all__ = [
    "PROVIDERS",
    "ActiveProvider",
    "Catalogue",
    "CatalogueModel",
    "CatalogueProvider",
    "Config",
    "Duration",
    "KeySource",
    "Keyring",
    "Locations",
    "Origin",
    "Price",
    "Redactor",
    "ResolvedModel",
    "Secret",
    "SecretStore",
    "Settings",
    "StreamRedactor",
    "TrustStore",
    "configured_secrets",
    "find_source",
    "format_duration",
    "load_config",
    "parse_duration",
    "plain",
    "project_files",
    "resolve_model",
    "search_key",
    "secret_variables",
]
