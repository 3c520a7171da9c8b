# SPDX-License-Identifier: BSD-3-Clause
# Completion for startrain and starbench: their forms, options and the names that an option takes are those of their --help; and files.

# The names that an option takes, where its help lists some: "of the files: criteo, census or text [...]".
_star_names()
{
	local text

	text=$(sed -nE "s/^ +$2 +[A-Z.:]+ +([^[]*).*/\1/p" <<<"$1" | sed -E 's/ \([^)]*\)//g; s/^.*: //; s/,? or |, /\n/g; s/ +$//; s/\n\.\.\.//')
	# A sentence is no list.
	if [[ $text == *$'\n'* && $text != *' '* ]]; then
		echo "$text"
	fi
}

_star_options()
{
	local current=${COMP_WORDS[COMP_CWORD]} form=() help names

	if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then
		form=("${COMP_WORDS[1]}")
	fi
	help=$("${COMP_WORDS[0]}" "${form[@]}" --help 2>/dev/null)
	if ((COMP_CWORD == 1)) && [[ $current != -* ]]; then
		names=$(sed -nE 's/^MODEL is one of (.*)\.$/\1 generate key/p; s/^(usage:)? +starbench ([a-z]+) .*/\2/p' <<<"$help")
		mapfile -t COMPREPLY < <(compgen -W "${names//,/}" -- "$current")
		return
	fi
	if ((COMP_CWORD == 2)) && [[ $current && $current != -* ]]; then
		names=$(sed -nE 's/^ +startrain (MODEL|FILE\.star) ([a-z]+) .*/\2/p' <<<"$help")
		mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
		if ((${#COMPREPLY[@]})); then
			return
		fi
	fi
	if [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(grep -oE '^ +--[a-z-]+(, --[a-z-]+)*' <<<"$help" | grep -oE -- '--[a-z-]+')
			--help" -- "$current" | sort -u)
		return
	fi
	names=$(_star_names "$help" "${COMP_WORDS[COMP_CWORD - 1]}")
	if [[ $names && ${COMP_WORDS[COMP_CWORD - 1]} == --* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
		return
	fi
	mapfile -t COMPREPLY < <(compgen -f -- "$current")
	compopt -o filenames 2>/dev/null
}
complete -F _star_options startrain starbench
