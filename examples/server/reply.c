#include "reply.h"

#include "common/real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reply_floats(struct sink * out, const float * x, int64_t n) {
    sink_text(out, "[");
    for (int64_t i = 0; i < n; i++) {
        char cell[REAL_TEXT_SIZE + 1];
        cell[0] = ',';
        const int len = real_text(cell + 1, x[i]);
        sink_write(out, cell + (i == 0), (size_t) (len + (i > 0)));
    }
    sink_text(out, "]");
}

void reply_real(struct sink * out, double x) {
    char cell[REAL_TEXT_SIZE];
    if (!isfinite(x)) sink_text(out, "null");
    else sink_write(out, cell, (size_t) real_text(cell, (float) x));
}

void reply_base64(struct sink * out, const float * x, int64_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[3 * 256];
    const int64_t n_bytes = 4 * n;
    sink_text(out, "\"");
    for (int64_t at = 0; at < n_bytes; at += (int64_t) sizeof(bytes)) {
        const int64_t m = n_bytes - at < (int64_t) sizeof(bytes) ? n_bytes - at : (int64_t) sizeof(bytes);
        char text[4 * 256];
        size_t len = 0;
        for (int64_t i = 0; i < m; i += 4) {
            uint32_t word;
            memcpy(&word, &x[(at + i) / 4], 4);
            for (int b = 0; b < 4; b++) bytes[i + b] = (unsigned char) (word >> 8 * b);
        }
        for (int64_t i = 0; i < m; i += 3) {
            const unsigned a = bytes[i], b = i + 1 < m ? bytes[i + 1] : 0, c = i + 2 < m ? bytes[i + 2] : 0;
            text[len++] = letters[a >> 2];
            text[len++] = letters[(a & 3) << 4 | b >> 4];
            text[len++] = i + 1 < m ? letters[(b & 15) << 2 | c >> 6] : '=';
            text[len++] = i + 2 < m ? letters[c & 63] : '=';
        }
        sink_write(out, text, len);
    }
    sink_text(out, "\"");
}

void reply_text(struct sink * out, const char * text) { sink_json(out, text, strlen(text)); }

void reply_usage(struct sink * out, const struct call * c, int n_before) {
    const struct job * j = c->job;
    sink_printf(out,
        "\"usage\": {\"prompt_tokens\": %lld, \"total_tokens\": %lld}, \"attention\": ", (long long) j->n_tokens,
        (long long) j->n_tokens);
    reply_text(out, job_attention(j).text);
    sink_text(out, ", \"truncated\": [");
    for (int i = 0, n = 0; i < j->n_seq; i++)
        if (job_is_truncated(j, i)) sink_printf(out, "%s%d", n++ ? ", " : "", i - n_before);
    sink_text(out, "]");
}

double reply_dot(const float * x, const float * y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double) x[i] * y[i];
    return sum;
}
