# SPDX-License-Identifier: BSD-3-Clause
# Completion of starctl for bash: the words come from starctl's own table of commands.

_starctl()
{
	local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" word
	local -a given=()
	local -i i

	case "$previous" in
	--socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$current"; compgen -G "/run/starserver/$current*.sock")
		compopt -o filenames 2>/dev/null
		return
		;;
	--address)
		COMPREPLY=()
		return
		;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		word="${COMP_WORDS[i]}"
		case "$word" in
		--socket | --address) ((i++)) ;;
		-*) ;;
		*) given+=("$word") ;;
		esac
	done
	case "${given[*]}" in
	"config check" | "config print" | "endpoint-map check")
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" help --words "${given[@]}" 2>/dev/null)" -- "$current")
}

complete -F _starctl starctl
