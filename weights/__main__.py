"""`python -m weights`: what there is to run."""

PROGRAMS = """\
python -m weights.check NAME            seconds
    check that a model's weights load right
python -m weights.convert NAME OUT      a minute
    write pytorch_model.bin anew as model.safetensors
python -m weights.train TEXT --out DIR  10 minutes, or --minutes M
    make a target and its draft from a text of your own

From Python: weights.load_model("tales-large")"""

if __name__ == "__main__":
    print(PROGRAMS)
