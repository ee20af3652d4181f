"""`python -m decoding`: what there is to run."""

PROGRAMS = """\
python -m decoding.generate          seconds
    continue a text by speculative decoding, and show what it
    gained over plain decoding; --help lists all options
python -m decoding.benchmark --tune  a minute
    find the best gamma for a pair of models on this machine
python -m decoding.benchmark         many minutes
    measure speculation against plain decoding: rows, tables and
    plots in the folder results
python -m decoding.evaluate          minutes
    answer a task's problems (HumanEval, XSum, a file) by both
    loops, score both, and say what their difference is worth
python -m decoding.animation         seconds
    draw README's moving picture from a recorded run
python -m decoding.bench.join DIR...         seconds
    print one table of the results in several folders
python -m decoding.bench.transformers        many minutes
    measure side by side with the library transformers
python -m decoding.bench.batches             minutes
    measure several texts at once, plain and speculative
python -m decoding.bench.parallel            a minute
    measure a target that is split over several processes
python -m decoding.bench.rules               minutes
    what the block rule and trees keep of the same drafts
python -m decoding.bench.llama_cpp           many minutes
    measure side by side with llama.cpp; --build compiles it
python -m decoding.bench.round               minutes
    say where every millisecond of a run goes
python -m decoding.bench.layouts             a minute
    say how long one product takes in each layout
python -m decoding.bench.counting FOLDER     seconds
    write a GPT-2 of official shape whose right text is known

From Python: decoding.speculative_sampling(target, draft, ids, 50)"""

if __name__ == "__main__":
    print(PROGRAMS)
