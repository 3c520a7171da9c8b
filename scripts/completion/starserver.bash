# SPDX-License-Identifier: BSD-3-Clause
# Completion for starserver; the names after --set come from the program itself.
_starserver()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}

	case $previous in
	-c | --config)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	--set)
		mapfile -t COMPREPLY < <(compgen -S = -W "$("${COMP_WORDS[0]}" --help 2>/dev/null |
			grep -oE '^ +[a-z_]+\.[a-z_]+' | tr -d ' ')" -- "$current")
		compopt -o nospace
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "--config --set --check --print --print-options-rst --version --help" -- "$current")
}
complete -F _starserver starserver
