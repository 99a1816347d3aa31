"""Training loads: from the descriptor of an LLM pre-training job to its checkpoint-state graph. Knows no network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
