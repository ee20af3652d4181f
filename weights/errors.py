"""The two errors of loading: weights that cannot be used, and files that cannot be fetched.

Imports nothing, so that a program can catch them without loading torch.
"""


class WeightsError(ValueError):
    """Say that what the user named cannot be used as it is.

    The message is one line: what is wrong, and what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class DownloadError(OSError):
    """Say that a file of the hub could not be fetched.

    The message is one line: the file, why, and how to get it another way.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class ProcessLost(Exception):
    """Say that another process of a model that is shared out has ended, or does not answer."""
