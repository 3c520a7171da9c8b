# SPDX-License-Identifier: BSD-3-Clause
# Completion for startrain and starbench: their options, as --help lists them, and files.
_star_options()
{
	local current=${COMP_WORDS[COMP_CWORD]}

	case $current in
	-*) mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null | grep -oE -- '--[a-z-]+' | sort -u)" -- "$current") ;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	esac
}
complete -F _star_options startrain starbench
