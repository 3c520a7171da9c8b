# SPDX-License-Identifier: BSD-3-Clause
# Completion for starserver: its options and the names after --set are those of its --help.
_starserver()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} help

	help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
	case $previous in
	-c | --config)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	--directory)
		mapfile -t COMPREPLY < <(compgen -d -- "$current")
		compopt -o filenames 2>/dev/null
		return
		;;
	--set)
		mapfile -t COMPREPLY < <(compgen -S = -W "$(grep -oE '^  [a-z_]+(\.[a-z_]+)?$' <<<"$help")" -- "$current")
		compopt -o nospace 2>/dev/null
		return
		;;
	esac
	# Those of the list, where each line begins with them, and not those that a text mentions.
	mapfile -t COMPREPLY < <(compgen -W "$(sed '/^Options of the configuration:/,$d' <<<"$help" |
		grep -oE '^ +(-[a-z], )?--[a-z-]+(, --[a-z-]+)*' | grep -oE -- '--[a-z-]+')" -- "$current")
}
complete -F _starserver starserver
