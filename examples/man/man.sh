#!/bin/sh
# A man page from a program's --help.
# usage: man.sh PROGRAM VERSION > program.1
set -eu
help=$("$1" --help)
printf '%s\n' "$help" | awk -v name="$(basename "$1")" -v version="$2" '
function esc(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.\x27]/) s = "\\&" s; return s }
function trim(s) { sub(/^ +/, "", s); sub(/ +$/, "", s); return s }
function fill(on) { if (on == filled) return; print on ? ".fi\n.RE" : ".RS 4\n.nf"; filled = on }
BEGIN { filled = 1; printf ".TH %s 1 \"\" \"ggml-mra %s\" \"ggml-mra\"\n", toupper(name), version }
/^usage: / {
    text = substr($0, 8)
    synopsis = synopsis (synopsis == "" ? "" : "\n.br\n") esc(text)
    next
}
!named && /^ +[^ ]/ { synopsis = synopsis "\n.br\n" esc(trim($0)); next }
!named && NF { # the first line of the description
    named = 1
    line = $0; sub(/\. .*/, "", line); sub(/\.$/, "", line)
    printf ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n%s\n.fi\n.SH DESCRIPTION\n%s\n", esc(name), esc(tolower(substr(line, 1, 1)) substr(line, 2)), synopsis, esc($0)
    next
}
/^[A-Za-z][^.]*:$/ { fill(1); title = $0; sub(/:$/, "", title); printf ".SH %s\n", toupper(esc(title)); section = title; next }
section ~ /options/ && /^ +-/ {
    fill(1)
    head = trim($0); text = ""
    if (match(head, /   */)) { text = substr(head, RSTART + RLENGTH); head = substr(head, 1, RSTART - 1) }
    printf ".TP\n.B %s\n%s\n", esc(head), esc(text)
    next
}
section ~ /options/ && /^ +[^ ]/ { print esc(trim($0)); next }
/^ / { fill(0); print esc(substr($0, 3)); next }
NF == 0 { if (filled && !(section ~ /options/)) print ".PP"; next }
section ~ /options/ { print ".SH NOTES"; section = "" }
{ fill(1); print esc($0) }
END { fill(1); print ".SH SEE ALSO\nmra\\-embed(1), mra\\-classify(1), mra\\-fill\\-mask(1), mra\\-rerank(1), mra\\-tokenize(1), mra\\-calibrate(1), mra\\-quantize(1), mra\\-bench(1), mra\\-server(1)" }'
