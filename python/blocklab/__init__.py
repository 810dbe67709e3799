"""blocklab: a laboratory for Linux storage on flash."""

from .errors import StudyError

__all__ = ["StudyError"]
