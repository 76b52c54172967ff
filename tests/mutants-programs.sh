#!/bin/sh
# Seeded bugs of the programs: each line of the list changes one place of a copy of examples/; what it names must then fail: a part of
# test-programs.sh, faults-*: one of test-faults.sh, server: test_server.py, server_load: test_server_load.py, test-real, bench-model: test-bench-model.
# usage: mutants-programs.sh SOURCE BUILD [WORD]   BUILD: a complete build, only its ggml is reused; WORD: only lines that have it
#        mutants-programs.sh SOURCE -              only whether every line fits
# The list: see seeded-bugs.sh. Files are in examples/.
set -u
src=$(cd "$1" && pwd); only=${3:-}; work=$src; fit=1; log=
if [ "$2" != - ]; then build=$(cd "$2" && pwd); work=$build/mutants-programs${PART:+-${PART%/*}}; fit=0; log=$work/log; fi
. "$src/tests/seeded-bugs.sh"

targets="mra-embed mra-classify mra-fill-mask mra-rerank mra-tokenize mra-calibrate mra-eval mra-inspect mra-quantize mra-bench program-check fail-strdup test-real test-bench-model mra-bench-broken"
for i in embed rerank fill-mask tokenize calibrate quantize; do targets="$targets mra-$i-inject"; done
pkg-config --exists libmicrohttpd && targets="$targets mra-server"
prepare() {
    mkdir -p "$work"; rm -rf "$work/examples" "$work/tests"
    cp -rp "$src/CMakeLists.txt" "$src/ggml-mra" "$src/tests" "$work/"
    cp -r "$src/examples" "$work/" # with today's times: what the last bug of an earlier run made is compiled again
    cmake --install "$build" --prefix "$work/usr" &&
        cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_BUILD_TYPE=Release -DGGML_MRA_KERNEL_OPT=-O1
}
places() { for f in $1; do echo "$work/examples"/$f; done; }
build_test() { cmake --build "$work/build" -j 2 --target $targets; }
run_test() {
    case $1 in
        server*)   timeout -k 10 200 python3 -B "$src/tests/test_$1.py" "$work/build/bin" -f ;;
        test-real) "$work/build/bin/test-real" ;;
        bench-model) bin=$work/build/bin; "$bin/test-bench-model" "$bin/mra-bench" "$src/tests/golden" "$work" "$bin/mra-quantize" "$bin/mra-bench-broken" ;;
        faults-*)  MRA_TEST_KILLS=8 timeout -k 10 250 "$src/tests/test-faults.sh" "${1#faults-}" "$work/build/bin" "$src/tests/golden" "$work/run" "$work/build/bin/program-check" ;;
        *)         timeout -k 10 120 "$src/tests/test-programs.sh" "$1" "$work/build/bin" "$src/tests/golden" "$work/run" "$work/build/bin/program-check" ;;
    esac
}

[ $fit = 1 ] || { mkdir -p "$work"; prepare >"$log" 2>&1 || { tail "$log"; exit 1; }; }
seeded_bugs <<'LIST'
bench-model|bench-model-check.c|3 * moved|0 * moved
bench-model|bench-model-rounded.c|roundf(x[i] / scale) * scale|x[i]
studies  |inspect-page.c|*c == '<' \!\! |
studies  |eval-study.c|squares(x, r.out, exact, h, &e2, &r2);|squares(x, r.out, exact, 0, &e2, &r2);
studies  |eval-capture.c|n_captured * 3 + c) * n + i) * d|n_captured * 3) * n + i) * d
studies  |common/attn-graph.c|p.scale = x->scale;|p.scale = 1;
studies  |common/attn-graph.c|((size_t) in->d + 7) / 8 * 8|(size_t) in->d
studies  |eval-capture.c|d = (size_t) in->d;|d = (size_t) x.d;
studies  |eval.c|if (e->done[l] == (e->capture ? 1 : e->n_texts)) continue;|
streams  |common/stream.c|input_next(&s->in, &it->rec, first, &err)|input_next(&s->in, &it->rec, true, &err)
streams  |common/signals.c|stop = 1;|stop = 0;
streams  |common/report.c|interrupted() ? 130|interrupted() ? 0
streams  |common/report.c|n_failed ? 3 : 0|n_failed ? 0 : 0
streams  |common/encode.c|x += n_rows * r.n_cols;|x += 0;
streams  |common/input.c|if (*n > 0 && s[*n - 1] == '\r') --*n;|
streams  |common/input.c|*s += 3;|*s += 0;
streams  |common/reader.c|(r->ended && r->n > r->at)|0
streams  |common/input.c|while (in->kind == INPUT_JSONL && is_blank(line, n))|while (0)
streams  |common/record.c|"\"%.100s\" is not a string" : |"%.1s" : 
streams  |common/record.c|!json_is_integer(v[0])|*v[0].s == '{'
streams  |common/record.c|has_id ? json_not_text(v[0]) : NULL|NULL
streams  |common/input.c|r->status == MRA_OK && !in->o.replace|0
streams  |common/record.c|at_pair < r->n_pair|0
streams  |common/record.c|utf8_end(c->fields[id], c->sizes[id]) < c->sizes[id]|0
streams  |common/json.c|if (s[1] != 'u') s++; else|if (s[1] == 'u')
streams  |common/json.c|is_half(escaped(&s, end))|0
streams  |common/args.c|if (at < n) usage_error(|if (0) usage_error(
studies  |inspect.c|if (!o->input.replace) record_check_text(r);|
streams  |common/json.c|if (c.s < c.end) {|if (0) {
streams  |common/json.c|    *s += 6;|
streams  |common/resume.c|if (in.buf[in.at - 1] != '\n') break;|
streams  |common/resume.c|"line", at,|"line", at + 1,
streams  |common/resume.c|if (found->id != mark.id) {|if (0) {
streams  |common/output.c|if (f < 0) {|if (1) {
streams  |common/output.c|if (!isatty(STDERR_FILENO)) return;|
failures|common/sink.c|            cut(s, done);|
failures|common/stream.c|const int error = s->out.error;|const int error = 0;
failures|common/sink.c|s->error == EPIPE) return true;|0) return true;
failures|common/signals.c|sigaction(SIGPIPE, &ignore, NULL);|
failures|common/window.c|if (rules->truncate == TRUNCATE_ERROR) {|if (0) {
failures|common/window.c|const int64_t a = body * i / it->n_seq, b =|const int64_t a = body * i / it->n_seq + 9 * (i > 0), b =
failures|common/encode.c|it->max_err = fmax(it->max_err, fabs(d));|
failures|common/engine.c|e->params.stop = stop;|
failures|common/engine.c|e->said_approximate = true;|
failures|common/engine.c|if (c->exact \!\! c->trained|if (c->trained
failures|common/stream.c|n_tokens < s->window_tokens|n_tokens < 8 * s->window_tokens
failures|embed.c|n * p / parts), b|n * p / parts + 9 * (p > 0)), b
failures|embed.c|e->chunk ? MRA_OUTPUT_SPANS : MRA_OUTPUT_POOLED|MRA_OUTPUT_POOLED
formats  |embed-output.c|row[c] = NAN|row[c] = 0
formats  |embed-output.c|e->n_rows : it->rec.number - 1;|e->n_rows : it->rec.number;
formats  |embed-output.c|npy_header(head, "<f4", (s->out.offset|npy_header(head, "<f4", 1 + (s->out.offset
formats  |embed.c|memcpy(r->data, rows, |memcpy(r->data, rows + 1, 
formats  |embed.c|.normalize = e->normalize,|
formats  |embed.c|.n_dims = e->dims,|
formats  |common/window.c|memcpy(p, rules->prefix, n);|memset(p, ' ', n);
formats  |common/window.c|it->pair, n_pair,|NULL, 0,
basics   |common/window.c|it->pair = own ? r->pair : rules->pair;|it->pair = own ? r->pair : NULL;
basics   |common/engine.c|use --device cpu or auto", o->device|use --device cpu or auto", o->model
basics   |rerank.c|x->score > y->score ? -1 : 1|x->score < y->score ? -1 : 1
basics   |rerank.c|qsort(r->hits, r->n_hits, sizeof(*r->hits), compare);|
basics   |rerank.c|normalize(x, rows, (int) n_cols);|memcpy(x, rows, (size_t) n_cols * 4);
basics   |fill-mask.c|best[j - 1].logit < rows[i]|best[j - 1].logit > rows[i]
basics   |fill-mask.c|found = j;|found = -1;
basics   |classify.c|x[order[j - 1]] < x[i]|x[order[j - 1]] > x[i]
basics   |classify.c|exp(x[i] - max) / sum|exp(x[i] - max)
basics   |classify.c|info->problem == MRA_PROBLEM_MULTI|0
basics   |common/options.c|same = same \!\! same_file(o->input.names[i], o->out);|
inputs   |common/input.c|if (line == 1) skip_mark(&row, &n);|
inputs   |common/input.c|in->columns = (struct csv_columns) { 0 };|
inputs   |common/input.c|in->line = 0;|
inputs   |common/input.c|r->number = ++in->number;|r->number = r->line;
inputs   |common/reader.c|CSV_CLOSED : CSV_QUOTED|CSV_QUOTED : CSV_QUOTED
inputs   |common/reader.c|r->escaped = ch == '\\';|r->escaped = false;
inputs   |common/reader.c|r->in_array && !r->closed ?|0 ?
inputs   |common/reader.c|!r->in_array && (ch == ','|0 && (ch == ','
inputs   |common/csv.c|counts[1] > counts[0] ? 1 : 0|0
inputs   |common/csv.c|(++s == end \!\! *s != '"')|++s
inputs   |common/source.c|s->inside ? failed(|0 ? failed(
inputs   |common/source.c|if (inflateReset(z) != Z_OK) return false;|
inputs   |common/source.c|if (memchr(to, 0, *n))|if (0)
inputs   |common/source.c|if (m == MATCH_YES) return failed|if (0) return failed
inputs   |common/record.c|if (memchr(text, 0, n)) {|if (0) {
inputs   |common/path-list.c|d->d_name[0] != '.'|d->d_name[1] != 0
inputs   |common/path-list.c|S_ISDIR(link.st_mode)|S_ISDIR(st.st_mode)
inputs   |common/path-list.c|? below : name|? name : name
inputs   |common/resume.c|if (line < 0) return|if (0) return
inputs   |common/stream.c|if (same_file(s->in.o.names[i], s->o->out))|if (0)
endings  |common/zip.c|put(p, at + size, 8)|put(p, at, 8)
endings  |common/zip.c|to = put(to, e->crc, 4);|to = put(to, 0, 4);
endings  |embed-npz.c|if (sink_flush(&s->out) \!\! n == 0) return;|sink_flush(&s->out); return;
endings  |common/sink.c|if (s->error) s->lost = s->error;|
endings  |embed-output.c|if (*text == '"') sink_text(out, "\"");|
endings  |embed-format.c|if (asked && ending == ENDING_OTHER)|if (asked)
endings  |common/program.c|if (ending == ENDING_JSONL) o->json = true;|
calibrate|calibrate.c|(double) row[i] * row[i];|fabsf(row[i]);
calibrate|calibrate.c|m->n_rows += n_rows;|m->n_rows++;
basics   |common/args.c|i < n_opt && i < MAX_OPTS|i < a->n_opt && i < MAX_OPTS
test-real|common/real.c|LEAST_EXPONENT = -4|LEAST_EXPONENT = -3
server   |server/settings.c|volatile unsigned differ = n != n_key;|volatile unsigned differ = 0;
server   |server/embeddings.c|if (!c->server->settings.accept_token_ids)|if (0)
server   |server/embeddings.c|j->seqs[i].row + (int64_t) t|j->seqs[i].row
server   |server/job.c|if (s->list.n > limit) return mra_fail(err, MRA_ERR_TOO_LONG|if (0) return mra_fail(err, MRA_ERR_TOO_LONG
server   |server/job.c|memmove(list->data + head,|memmove(list->data,
server   |server/request.c|if (i == n) return unknown(c, what, key, fields, n);|if (i == n) continue;
server   |server/request.c|if (not_text)|if (0)
server   |server/request.c|if (n > most)|if (0)
server   |server/reply.c|i + 2 < m ? letters[c & 63] : '='|'='
server   |server/http.c|if (c->n_body + n > s->settings.max_body) too_large(c);|if (0) too_large(c);
server   |server/http.c|x->refused && x->n_received > DISCARD|x->refused
server   |server/scores.c|x->score > y->score ? -1 : 1|x->score < y->score ? -1 : 1
server   |server/scores.c|add_pair(c, 0, v, &way);|add_pair(c, 0, member, &way);
server   |server/info.c|((unsigned char) text[i] & 0xc0) != 0x80|true
server   |server/models.c|prefers(x, use) && !prefers(found, use)|0
server   |server/worker.c|log1pf(max)|-max
server_load|server/queue.c|q->shortest_turn = !q->shortest_turn;|
server_load|server/queue.c|q->ms <= q->limits.max_ms &&|
server_load|server/queue.c|.events = POLLRDHUP|.events = 0
server_load|server/queue.c|now < j->deadline|true
server_load|server/queue.c|(*ms == 0 \!\! *ms|(*ms
server_load|server/worker.c|x += n_rows * r.n_cols;|
server_load|server/worker.c|return w->n_now > 0;|return false;
server_load|server/job.c|mra_token_list_free(&j->seqs[i].list);|
server_load|server/main.c|while (atomic_load(&s->n_calls) > 0 && now_ms() < until) {|while (0) {
faults-memory  |common/engine.c|e->params.max_bytes = memory_left(e, o);|
faults-memory  |common/engine.c|if (o->max_memory <= e->info.n_bytes)|if (0)
faults-injected|common/record.c|if (!r->text) record_fail(r, MRA_ERR_MEMORY, "out of memory");|
faults-injected|common/stream.c|if (!it) fatal(s->program, "out of memory");|
faults-numbers |common/encode.c|if (!isfinite(rows[i])) {|if (0) {
faults-files   |common/bus.c|sigaction(SIGBUS, &on, NULL);|
faults-resume  |common/fingerprint.c|if (strcmp(was, f->parts[i]) != 0)|if (i == N_PARTS)
faults-resume  |common/fingerprint.c|h = mix(h, words[i]);|h += n == SIZE_MAX;
faults-resume  |common/fingerprint.c|!f->path \!\! stat(o->resume, &st) != 0|1
faults-resume  |common/resume.c|if (twice) fatal|if (0) fatal
faults-kills   |common/stream.c|const bool good = sink_flush(&s->out);|const bool good = true;
LIST
