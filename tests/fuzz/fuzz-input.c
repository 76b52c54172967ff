// Files of records, packed or not: a reader gives records, each whole or with what is wrong with it, and ends.
#include "common/input.h"
#include "common/json.h"
#include "common/utf8-length.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check(const struct record * r) {
    struct mra_error err;
    if (r->status != MRA_OK) {
        require(!r->text && r->error[0]);
        return;
    }
    require(r->text && r->text[r->n_text] == 0 && (!r->pair || r->pair[r->n_pair] == 0));
    require(utf8_end(r->text, r->n_text) == r->n_text && (!r->pair || utf8_end(r->pair, r->n_pair) == r->n_pair));
    if (!r->id) return;
    const struct json_span id = { r->id, strlen(r->id) }; // goes into the output as it is
    require(
        json_check(id.s, id.n, &err) == MRA_OK && !json_not_text(id) && (json_is_string(id) || json_is_integer(id)));
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct choices c = { data, size };
    const uint8_t how = take(&c);
    struct input in;
    struct mra_error err = { 0 };
    struct record r;
    enum input_state state;
    char * name = (char *) memory_file(c.p, c.n, "", 0);
    const struct input_options o = { .from = how & 64 ? FROM_FILES : FROM_LINES,
        .names = &name,
        .n_names = 1,
        .kind = (enum input_kind)(how % 6),
        .column = how & 16 ? "2" : NULL,
        .no_header = how & 32 };
    if (input_open(&in, &o, &err) != MRA_OK) return 0;
    while ((state = input_next(&in, &r, how & 128, &err)) == INPUT_RECORD || state == INPUT_NOT_YET) {
        if (state == INPUT_NOT_YET) continue;
        check(&r);
        record_free(&r);
    }
    require(state == INPUT_END || err.msg[0]);
    input_close(&in);
    return 0;
}
