#!/bin/sh
# Bash completion from the programs' --help: option names, file names, and the words of options that take one of a few.
# usage: completion.sh PROGRAM... > mra
set -eu
echo '# bash completion of the mra- programs'
cat <<'END'
_mra_complete() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=
    case $prev in
        --format)   words='text json jsonl npy raw openai' ;;
        --pooling)  words='mean cls last max mean_sqrt' ;;
        --input)    words='auto text jsonl' ;;
        --truncate) words='error right'; [ "${1##*/}" = mra-embed ] && words="$words chunk" ;;
        --attn)     words='auto exact mra' ;;
        --frame)    words='columns mra2 mra2s exact 16,4,1' ;;
        --budget)   words='1/2 1/4 1/8 1/16 1/32' ;;
        --device)   words='cpu cuda auto' ;;
        --scores)   words='logit prob' ;;
        -m|--model) COMPREPLY=($(compgen -f -X '!*.gguf' -- "$cur") $(compgen -d -- "$cur")); return ;;
        -f|-o|--file|--output|--resume) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        *)
            case $cur in
                -*) ;;
                *) COMPREPLY=($(compgen -f -- "$cur")); return ;;
            esac
            case ${1##*/} in
END
for program in "$@"; do
    options=$("$program" --help | awk '/^[a-z].*:$/ { on = /options/ } on && /^ +-/ { for (i = 1; i <= NF && i <= 3; i++) { o = $i; sub(/,$/, "", o); if (o ~ /^-/) printf "%s ", o } }')
    [ "$options" ] || options=$("$program" --help | awk '/^[a-z].*:$/ { on = /commands/ } on && /^ / { printf "%s ", $1 }')
    printf "                %s) words='%s' ;;\n" "$(basename "$program")" "${options% }"
done
cat <<'END'
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
END
printf 'complete -o filenames -F _mra_complete'
for program in "$@"; do printf ' %s' "$(basename "$program")"; done
echo
