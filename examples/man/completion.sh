#!/bin/sh
# Completion from the programs' --help: option names, file names, and the words of options that take one of a few.
# usage: completion.sh bash|zsh|fish PROGRAM...      bash and zsh: one file for all programs; fish: a file for each
set -eu
shell=$1; shift

values="--format text json jsonl npy raw openai csv npz
--pooling mean cls last max mean_sqrt
--input auto text jsonl json csv tsv
--truncate error right chunk
--attn auto exact mra
--frame columns mra2 mra2s exact 16,4,1
--budget 1/2 1/4 1/8 1/16 1/32
--device cpu cuda auto
--scores logit prob"

# a line for each option or command: short|long|argument or nothing|first line of its text
options() {
    "$1" --help | awk '
        /^[a-z].*:$/ { on = /options|commands/; commands = /commands/ }
        on && commands && /^ +[a-z]/ { name = $1; sub(/^ +[a-z]+ +/, ""); print "|" name "||" $0 }
        on && !commands && /^ +-/ {
            text = $0; sub(/^ +/, "", text); head = text
            if (match(text, /   */)) { head = substr(text, 1, RSTART - 1); text = substr(text, RSTART + RLENGTH) } else text = ""
            n = split(head, part, /[ ,]+/); short = long = arg = ""
            for (i = 1; i <= n; i++) if (part[i] ~ /^--/) long = part[i]; else if (part[i] ~ /^-/) short = part[i]; else arg = part[i]
            gsub(/[|]/, "/", text); print short "|" long "|" arg "|" text
        }'
}
words_of() { printf '%s\n' "$values" | sed -n "s/^$1 //p"; }
names() { for program in "$@"; do printf ' %s' "$(basename "$program")"; done; }
quoted() { printf '%s' "$1" | sed "s/'/'\\\\''/g"; }

bash_file() {
    echo '# bash completion of the mra- programs'
    echo '_mra_complete() {'
    echo '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='
    echo '    case $prev in'
    printf '%s\n' "$values" | while read -r option words; do echo "        $option) words='$words' ;;"; done
    cat <<'EOF'
        -m|--model) COMPREPLY=($(compgen -f -X '!*.gguf' -- "$cur") $(compgen -d -- "$cur")); return ;;
        -f|-o|--file|--output|--resume) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        *)
            case ${1##*/}:$cur in
                *:-*|mra-bench:*) ;;
                *) COMPREPLY=($(compgen -f -- "$cur")); return ;;
            esac
            case ${1##*/} in
EOF
    for program in "$@"; do
        printf "                %s) words='%s' ;;\n" "$(basename "$program")" "$(options "$program" | awk -F'|' '{ printf "%s%s%s", sep, $1 ($1 && $2 ? " " : ""), $2; sep = " " }')"
    done
    echo '            esac ;;'
    echo '    esac'
    echo '    COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    echo '}'
    echo "complete -o filenames -F _mra_complete$(names "$@")"
}

zsh_file() {
    echo "#compdef$(names "$@")"
    echo '# zsh completion of the mra- programs'
    echo 'local -a words_of'
    echo 'case $words[CURRENT-1] in'
    printf '%s\n' "$values" | while read -r option words; do echo "    $option) compadd -- $words; return ;;"; done
    echo "    -m|--model) _files -g '*.gguf'; return ;;"
    echo '    -f|-o|--file|--output|--resume) _files; return ;;'
    echo 'esac'
    echo 'case $service in'
    for program in "$@"; do
        echo "    $(basename "$program")) words_of=("
        options "$program" | while IFS='|' read -r short long arg text; do
            for name in $short $long; do printf "        '%s:%s'\n" "$name" "$(quoted "$text")"; done
        done
        echo '    ) ;;'
    done
    echo 'esac'
    echo 'if [[ $PREFIX == -* || $service == mra-bench ]]; then _describe option words_of; else _files; fi'
}

fish_file() {
    name=$(basename "$1")
    echo "# fish completion of $name"
    [ "$name" = mra-bench ] && echo "complete -c $name -f"
    options "$1" | while IFS='|' read -r short long arg text; do
        case $long in
            -*) line="complete -c $name -l ${long#--}" ;;
            '') line="complete -c $name" ;;
            *)  echo "complete -c $name -n __fish_use_subcommand -a $long -d '$(quoted "$text")'"; continue ;;
        esac
        [ -z "$short" ] || line="$line -s ${short#-}"
        words=$(words_of "$long")
        if [ "$words" ]; then line="$line -x -a '$words'"; elif [ "$arg" = FILE ]; then line="$line -r -F"; elif [ "$arg" ]; then line="$line -x"; fi
        echo "$line -d '$(quoted "$text")'"
    done
}

"${shell}_file" "$@"
