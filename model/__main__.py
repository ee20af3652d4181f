"""`python -m model`: what there is to run."""

PROGRAMS = """\
Nothing here runs by itself: model/gpt2.py is GPT-2, to be read.

python -m decoding    programs that write text with it
python -m weights     programs that load and train it

From Python: model.GPT2(model.OFFICIAL_CONFIGS["gpt2"])"""

if __name__ == "__main__":
    print(PROGRAMS)
