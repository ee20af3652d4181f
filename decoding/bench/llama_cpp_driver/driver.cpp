// Greedy decoding with llama.cpp, one round whenever it is asked for one: the plain loop, and
// speculative decoding with a fixed gamma (Leviathan et al. 2023, Algorithm 1, at temperature 0).
//
//     driver TARGET.gguf DRAFT.gguf THREADS f32|f16       (a draft of "-": none)
//
// THREADS is how many compute; f32 or f16 is the number format of the keys and values. Reads lines on
// stdin, and answers each with a line on stdout:
//
//     start GAMMA NEW_TOKENS ID ID ...    begin a run after this prompt     -> SECONDS
//     round GAMMA                         decode one round of that run      -> SECONDS ID ID ...
//
// A gamma of 0 is the plain loop: one token a round. Runs of different gammas may take turns.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

using Ids = std::vector<llama_token>;

[[noreturn]] static void fail(const std::string & line) {
    std::cerr << "llama.cpp: " << line << std::endl;
    std::exit(1);
}

// The weights of a model.
struct Weights {
    llama_model * model;
    int threads;
    ggml_type cache_type;

    Weights(const std::string & path, int threads, ggml_type cache_type)
        : model(llama_model_load_from_file(path.c_str(), llama_model_default_params())),
          threads(threads), cache_type(cache_type) {
        if (!model) fail("cannot load " + path);
    }
};

// A model that reads: it has a key/value cache, which holds the first `length` tokens of the text.
class Reader {
    llama_context * context;
    llama_batch batch;
    int n_vocab;

  public:
    int length = 0;

    // capacity: the most tokens the text may have.
    Reader(const Weights & weights, int capacity) {
        llama_context_params params = llama_context_default_params();
        params.n_ctx = params.n_batch = params.n_ubatch = capacity;
        params.n_threads = params.n_threads_batch = weights.threads;
        params.type_k = params.type_v = weights.cache_type;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        context = llama_init_from_model(weights.model, params);
        if (!context) fail("cannot make a context");
        n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(weights.model));
        batch = llama_batch_init(capacity, 0, 1);
    }
    ~Reader() {
        llama_batch_free(batch);
        llama_free(context);
    }
    Reader(const Reader &) = delete;
    Reader & operator=(const Reader &) = delete;

    // Read the tokens of `text` that are not in the cache yet; compute the logits after the last
    // `last` of them.
    void feed(const Ids & text, int last) {
        const int n = (int) text.size() - length;
        batch.n_tokens = n;
        for (int i = 0; i < n; i++) {
            batch.token[i] = text[length + i];
            batch.pos[i] = length + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = i >= n - last;
        }
        if (n > 0 && llama_decode(context, batch) != 0) fail("a pass has failed");
        length += n;
    }

    // The most likely token after one of those that were fed last: i = 0 after the last of them,
    // i = 1 after the one before it, and so on.
    llama_token best(int i) {
        const float * logits = llama_get_logits_ith(context, -1 - i);
        return (llama_token) (std::max_element(logits, logits + n_vocab) - logits);
    }

    // Forget what lies beyond `n` tokens.
    void truncate(int n) {
        if (n >= length) return;
        llama_memory_seq_rm(llama_get_memory(context), 0, n, -1);
        length = n;
    }
};

// One run: the text so far, and how long it may become.
class Run {
    const int gamma;
    const size_t end;
    Ids text;
    Reader target;
    std::unique_ptr<Reader> draft;  // none in the plain loop

  public:
    // Begin, and read all of the prompt but its last token.
    Run(const Weights & t, const Weights * d, int gamma, int new_tokens, const Ids & prompt)
        : gamma(gamma), end(prompt.size() + new_tokens), text(prompt), target(t, (int) end) {
        const Ids read(prompt.begin(), prompt.end() - 1);
        target.feed(read, 0);
        if (gamma == 0) return;
        if (!d) fail("there is no draft");
        draft = std::make_unique<Reader>(*d, (int) end);
        draft->feed(read, 0);
    }

    // Draft, verify, accept, rewind. Return the new tokens.
    Ids round() {
        const int L = (int) text.size();
        const int k = std::min(gamma, (int) end - L - 1);
        if (k < 0) fail("the run is over");
        for (int i = 0; i < k; i++) {
            draft->feed(text, 1);
            text.push_back(draft->best(0));
        }
        target.feed(text, k + 1);
        int n = 0;  // how many of the drafted tokens are accepted
        while (n < k && target.best(k - n) == text[L + n]) n++;
        text.resize(L + n);
        text.push_back(target.best(k - n));  // the correction, or the bonus
        target.truncate(L + n);
        if (draft) draft->truncate(L + n);
        return Ids(text.begin() + L, text.end());
    }
};

static void only_errors(ggml_log_level level, const char * line, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) std::cerr << line;
}

int main(int argc, char ** argv) {
    if (argc != 5) fail("driver TARGET.gguf DRAFT.gguf THREADS f32|f16");
    llama_log_set(only_errors, nullptr);
    llama_backend_init();
    const int threads = std::atoi(argv[3]);
    const ggml_type cache_type = std::string(argv[4]) == "f32" ? GGML_TYPE_F32 : GGML_TYPE_F16;
    Weights target(argv[1], threads, cache_type);
    std::unique_ptr<Weights> draft;
    if (std::string(argv[2]) != "-")
        draft = std::make_unique<Weights>(argv[2], threads, cache_type);
    std::map<int, std::unique_ptr<Run>> runs;  // by gamma
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string command;
        int gamma, new_tokens;
        words >> command >> gamma;
        Ids ids;
        const auto started = std::chrono::steady_clock::now();
        if (command == "start") {
            Ids prompt;
            words >> new_tokens;
            for (llama_token id; words >> id;) prompt.push_back(id);
            runs[gamma].reset();  // its caches go before new ones come
            runs[gamma] = std::make_unique<Run>(target, draft.get(), gamma, new_tokens, prompt);
        } else {
            ids = runs.at(gamma)->round();
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
        std::cout << took.count();
        for (llama_token id : ids) std::cout << ' ' << id;
        std::cout << std::endl;
    }
}
