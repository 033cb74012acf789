"""What Argo, and the local engine like it, writes as the message of a container that failed."""

import re
from dataclasses import dataclass

_MESSAGE = re.compile(r"(?:main: )?Error \(exit code (?P<code>\d+)\)(?:: (?P<words>.*))?", re.DOTALL)


@dataclass(frozen=True)
class ExitMessage:
    """The message taken apart: it says nothing that exit code and last words do not."""

    exit_code: int
    last_words: str = ""

    def __str__(self) -> str:
        return f"main: Error (exit code {self.exit_code})" + (f": {self.last_words}" if self.last_words else "")


def parse_exit_message(text: str) -> ExitMessage | None:
    """None for any other message. Argo writes it with the name of the container and without."""
    found = _MESSAGE.fullmatch(text)
    return ExitMessage(int(found["code"]), found["words"] or "") if found else None
