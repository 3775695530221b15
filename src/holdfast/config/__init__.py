"""Configuration: settings and their origins, the model catalogue, keys and redaction, trusted directories.

The contract:

- `load_config` joins the layers into frozen, typed `Settings`. Each value has an origin. All problems are reported at
  once, with file, line, key and the nearest known name.
- A project's file is read only after its directory is trusted. It cannot name a key, send one elsewhere, or remove one
  of the user's rules.
- A key is a `Secret` from the moment it is read: no repr, message or log shows it. `Keyring` is the only place that
  fetches keys, and its `redactor` removes them from everything that leaves the server.
- The administrator's policy is the highest layer. It comes from a fixed path, and a policy that cannot be read or
  trusted lets nothing run.
- Files are written atomically, and changes by several processes are serialised.

This package does not know HTTP (`models/` discovers local models), sessions, runs, or the meaning of approval rules.
Reading and writing files blocks; code on the event loop calls it in a thread. `config_schema` and `config_edit` are not
imported here, because few commands need them.
"""

from holdfast.config.config_layers import Config, load_config, plain_values, project_files
from holdfast.config.managed_policy import Policy, PolicyFile
from holdfast.config.model_catalogue import ActiveProvider, Catalogue, ResolvedModel, search_key
from holdfast.config.redaction import Redactor, StreamRedactor
from holdfast.config.secrets import Keyring, SecretStore, secret_variables
from holdfast.config.setting_types import Secret
from holdfast.config.settings import Settings
from holdfast.config.trust import TrustStore

__all__ = [
    "ActiveProvider",
    "Catalogue",
    "Config",
    "Keyring",
    "Policy",
    "PolicyFile",
    "Redactor",
    "ResolvedModel",
    "Secret",
    "SecretStore",
    "Settings",
    "StreamRedactor",
    "TrustStore",
    "load_config",
    "plain_values",
    "project_files",
    "search_key",
    "secret_variables",
]
