"""Short names for the values of an axis: only what tells them apart."""

from __future__ import annotations

#: A name that stands alone among the values of its axis keeps its parameters up to this length.
_SHORT = 24


def short(labels: list[str]) -> dict[str, str]:
    """Each label such as `wadpm(gc_map_update=free,window(fixed=2))` in as few words as tell it
    from the others: `wadpm fixed=2`, if all others of that name have another window only.
    """
    parsed = {label: _parse(label) for label in dict.fromkeys(labels)}
    names = {}
    for label, (head, parts) in parsed.items():
        peers = [others for name, others in parsed.values() if name == head]
        if len(peers) == 1 and len(label) > _SHORT:
            names[label] = head
            continue
        common = [part for part in parts if len(peers) > 1 and all(part in p for p in peers)]
        own = [part for part in parts if part not in common]
        keys = {_key(part) for others in peers for part in others if part not in common}
        words = [_words(part, alone=len(keys) == 1 and len(peers) > 1) for part in own]
        names[label] = " ".join([head, *words])
    used = list(names.values())
    return {label: name if used.count(name) == 1 else label for label, name in names.items()}


def _parse(label: str) -> tuple[str, list[str]]:
    """`head(a,b(c,d))` as its head and its parts `a` and `b(c,d)`."""
    head, bracket, inner = label.partition("(")
    if not bracket or not inner.endswith(")"):
        return label, []
    parts, depth = [""], 0
    for letter in inner[:-1]:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return head, parts


def _key(part: str) -> str:
    return part.partition("(")[0].partition("=")[0]


def _words(part: str, *, alone: bool) -> str:
    """A parameter; `alone`, a value that is a word needs no key."""
    head, inner = _parse(part)
    if inner:
        words = ", ".join(_words(piece, alone=False) for piece in inner)
        return words if alone else f"{head} {words}"
    key, _, value = part.partition("=")
    return value if alone and value and not value[0].isdigit() else part
