"""A tokenizer in Python: the longest piece of a vocabulary that a text begins with, again and again."""

LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789"
LONGEST = 4
VOCABULARY = {letter: number for number, letter in enumerate(LETTERS)}
for first in LETTERS[:26]:
    for second in LETTERS[:26:2]:
        VOCABULARY[first + second] = len(VOCABULARY)


def tokenize(text):
    tokens, at = [], 0
    while at < len(text):  # slow: tokenizer
        for length in range(LONGEST, 0, -1):  # slow: tokenizer
            token = VOCABULARY.get(text[at : at + length])  # slow: tokenizer
            if token is not None:  # slow: tokenizer
                tokens.append(token)  # slow: tokenizer
                at += length  # slow: tokenizer
                break  # slow: tokenizer
    return tokens
