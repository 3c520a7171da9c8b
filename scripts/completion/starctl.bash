# SPDX-License-Identifier: BSD-3-Clause
# Completion of starctl for bash: the words come from starctl's own table of commands.

_starctl()
{
	local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" word
	local -a given=() node=()
	local -i i

	case "$previous" in
	--socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$current"; compgen -G "/run/starserver/$current*.sock")
		compopt -o filenames 2>/dev/null
		return
		;;
	--address | --ps-tasks | --reactors | --batch)
		COMPREPLY=()
		return
		;;
	--protocol)
		mapfile -t COMPREPLY < <(compgen -W "grpc++ star_server star_server_lite" -- "$current")
		return
		;;
	--svg)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		word="${COMP_WORDS[i]}"
		case "$word" in
		--socket | --address)
			node=("$word" "${COMP_WORDS[i + 1]}")
			((i++))
			;;
		-*) ;;
		*) given+=("$word") ;;
		esac
	done
	if [[ ${given[*]} == "graph explain" && $current != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
	fi
	case "${given[*]}" in
	"config check" | "config print" | "endpoint-map check")
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	esac
	case "${given[*]}" in
	"checkpoint list" | "checkpoint verify" | "checkpoint prune" | "checkpoint export" | "checkpoint import")
		mapfile -t COMPREPLY < <(compgen -d -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	"checkpoint prune "*)
		mapfile -t COMPREPLY < <(compgen -S = -W keep -- "$current")
		compopt -o nospace 2>/dev/null
		return
		;;
	"checkpoint import "*)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	"tables show" | "tables sweep") # the names of the node that would be asked
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${node[@]}" --json tables 2>/dev/null |
			sed -n 's/^    "name": "\([^" ]*\)",$/\1/p')" -- "$current")
		return
		;;
	"port remove")
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${node[@]}" --json port list 2>/dev/null |
			sed -n 's/^    "name": "\([^" ]*\)",$/\1/p')" -- "$current")
		return
		;;
	"tables options")
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" tables options 2>/dev/null |
			sed -n 's/^optimizer: //p' | tr -d ,)" -- "$current")
		return
		;;
	"tables create "*)
		mapfile -t COMPREPLY < <(compgen -S = -W "dim shape dtype optimizer $("${COMP_WORDS[0]}" tables options \
			2>/dev/null | sed -n 's/^\([a-z0-9_]*\) = .*/\1/p')" -- "$current")
		compopt -o nospace 2>/dev/null
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" help --words "${given[@]}" 2>/dev/null)" -- "$current")
}

complete -F _starctl starctl
