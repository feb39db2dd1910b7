"""SHA-256 for whoever is in a hurry: `hashlib` loads all of OpenSSL first, a tenth of a command that finds no change.

Python has an implementation of its own beside OpenSSL's, under a name that changed in 3.12. It takes no time to load
and a few times as long over the data, so what is long goes to `hashlib` after all.
"""

from __future__ import annotations

SHORT_BYTES = 512 * 1024
"""Above this, loading OpenSSL pays."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256 as sha256
else:
    try:
        from _sha2 import sha256 as _short
    except ImportError:
        try:
            from _sha256 import sha256 as _short
        except ImportError:
            from hashlib import sha256 as _short

    def sha256(data):
        """As `hashlib.sha256`."""
        if len(data) <= SHORT_BYTES:
            return _short(data)
        from hashlib import sha256 as known

        return known(data)
