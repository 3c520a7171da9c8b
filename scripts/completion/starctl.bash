# SPDX-License-Identifier: BSD-3-Clause
# Completion of starctl for bash: the words, and what follows a command, come from starctl's own table of commands.

# What the command that is given takes next, as its help's first line has it: "Usage: starctl [OPTIONS] checkpoint prune DIR keep=N".
_starctl_argument()
{
	local -a usage=()
	local -i i=0

	read -ra usage < <("$1" help "${@:2}" 2>/dev/null | sed -n 's/^Usage: starctl \[OPTIONS\] //p')
	shift
	while (($#)) && [[ ${usage[i]:-} == "$1" ]]; do
		i+=1
		shift
	done
	echo "${usage[i + $#]:-}"
}

_starctl()
{
	local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" word argument
	local -a given=() node=()
	local -i i

	case "$previous" in
	--socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$current"; compgen -G "/run/starserver/$current*.sock"
			compgen -G "${XDG_RUNTIME_DIR:-/nowhere}/starserver/$current*.sock"; compgen -G "/tmp/starserver-$UID/$current*.sock")
		compopt -o filenames 2>/dev/null
		return
		;;
	--address | --ps-tasks | --reactors | --batch | --restart | --promote | --timeout | --allow-restart)
		COMPREPLY=()
		return
		;;
	--protocol)
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" help graph explain 2>/dev/null |
			sed -nE 's/^ *--protocol NAME *//p' | sed -E 's/ \([^)]*\)//g; s/,? or |, / /g')" -- "$current")
		return
		;;
	--svg | --key | --state)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		word="${COMP_WORDS[i]}"
		case "$word" in
		--socket | --address | --key)
			node+=("$word" "${COMP_WORDS[i + 1]}")
			((i++))
			;;
		-*) ;;
		*) given+=("$word") ;;
		esac
	done
	argument=$(_starctl_argument "${COMP_WORDS[0]}" "${given[@]}")
	if [[ $current != -* ]]; then
		case "$argument" in
		FILE | \[FILE\] | FILE...)
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
			compopt -o filenames 2>/dev/null
			return
			;;
		DIR*)
			mapfile -t COMPREPLY < <(compgen -d -- "$current")
			compopt -o filenames 2>/dev/null
			return
			;;
		*=N)
			mapfile -t COMPREPLY < <(compgen -W "${argument%N}" -- "$current")
			compopt -o nospace 2>/dev/null
			return
			;;
		ROLE\|next)
			mapfile -t COMPREPLY < <(compgen -W "node worker reader operator admin next" -- "$current")
			return
			;;
		\[[a-z]*\|*)
			mapfile -t COMPREPLY < <(compgen -W "${argument//[^a-z]/ }" -- "$current")
			return
			;;
		esac
	fi
	case "${given[*]}" in
	"tables show" | "tables sweep" | "tables empty" | "tables drop"* | "tables export" | "tables import" | "rows get") # the names of the node that would be asked
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${node[@]}" --json tables 2>/dev/null |
			sed -n 's/^    "name": "\([^" ]*\)",$/\1/p')" -- "$current")
		return
		;;
	"queue drop")
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${node[@]}" --json queue list 2>/dev/null |
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
	if [[ ${given[0]:-} == help ]]; then # of a command
		given=("${given[@]:1}")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" help --words "${given[@]}" 2>/dev/null)" -- "$current")
}

complete -F _starctl starctl
