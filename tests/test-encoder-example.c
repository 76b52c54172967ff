// The example of mra-encoder.h, as a program: embeds a text.
#include "mra-encoder.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char ** argv) {
    struct mra_error err = { 0 };
    struct mra_model * model = mra_model_load(argc > 1 ? argv[1] : "model.gguf", NULL, &err);
    struct mra_context * ctx = model ? mra_context_new(model, NULL, &err) : NULL;
    struct mra_token_list list = { 0 };
    struct mra_output want = { .kind = MRA_OUTPUT_POOLED };
    struct mra_result r = { 0 };
    const char * text = "a text";
    if (ctx && mra_model_tokenize(model, text, strlen(text), NULL, 0, 0, &list, &err) == MRA_OK) {
        struct mra_seq seq = { .n = (int) list.n, .tokens = list.data };
        if (mra_encode(ctx, &seq, 1, &want, &r, &err) == MRA_OK)
            printf("%d tokens -> %d numbers: %g %g ...\n", seq.n, (int) r.n_cols, r.data[0], r.data[1]);
    }
    if (!r.data) fprintf(stderr, "%s\n", err.msg);
    mra_token_list_free(&list);
    const int ret = r.data ? 0 : 1;
    mra_context_free(ctx);
    mra_model_free(model);
    return ret;
}
