"""Draws words in large letters of half blocks, for readers at the far end of a hall."""

import textwrap

WIDE, HIGH = 4, 6  # pixels of a letter with its gaps
MOST = 6  # cells per pixel
# For each character its five rows from the top, each an octal digit of three pixels.
FONT = """
A25755 B65656 C34443 D65556 E74647 F74644 G34553 H55755 I72227 J11152 K55655 L44447 M57755 N57775 O25552 P65644 Q25563
R65655 S34216 T72222 U55557 V55522 W55775 X55255 Y55222 Z71247 a06357 b46556 c03443 d13553 e03563 f12722 g03536 h46555
i20222 j10152 k45665 l62227 m07775 n06555 o02552 p06564 q03531 r03444 s03636 t27223 u05557 v05552 w05577 x05225 y05536
z07367 075557 126227 271747 371717 455711 574717 674757 771111 875757 975717 .00002 ,00024 :02020 %51245 -00700 _00007
+02720 ×05250 ±27207 (12221 )42224 /11244 '22000 `42000 ?61202 ⚠22202 µ05574
"""
GLYPHS = {glyph[0]: [f"{int(row):03b}0" for row in glyph[1:]] for glyph in FONT.split()} | {" ": ["0000"] * 5}
HALVES = {"00": " ", "10": "▀", "01": "▄", "11": "█"}  # by the upper and the lower pixel of a cell


def large(words: str, width: int, height: int) -> list[str]:
    """The words in the largest letters that fit, as centered lines; none if no size fits, or a character has no such
    letter."""
    if not GLYPHS.keys() >= {*words}:
        return []
    for scale in range(MOST, 0, -1):
        letters = (width + scale) // (WIDE * scale)  # on a line; its last one needs no gap
        lines = textwrap.wrap(words, letters, break_long_words=False) if letters > 0 else [words]
        if max(map(len, lines), default=0) <= letters and len(lines) * HIGH * scale // 2 <= height:
            return [row for line in lines for row in _drawn(line, scale, width)]
    return []


def _drawn(line: str, scale: int, width: int) -> list[str]:
    rows = ["".join(GLYPHS[letter][row] for letter in line) for row in range(HIGH - 1)]
    pixels = [
        "".join(pixel * scale for pixel in row) for row in [*rows, "0" * len(rows[0])] for _ in range(scale)
    ]  # the last row is the gap to the next line
    left = " " * ((width - (len(line) * WIDE - 1) * scale) // 2)
    pairs = zip(pixels[::2], pixels[1::2], strict=True)
    return [left + "".join(HALVES[high + low] for high, low in zip(*pair, strict=True)).rstrip() for pair in pairs]
