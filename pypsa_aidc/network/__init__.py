"""AIDCs in PyPSA networks: added, solved, priced, audited. The only package that knows PyPSA and linopy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
