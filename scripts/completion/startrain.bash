# SPDX-License-Identifier: BSD-3-Clause
# Completion for startrain and starbench: their options, as --help lists them, startrain's models, and files.
_star_options()
{
	local current=${COMP_WORDS[COMP_CWORD]} form=()

	if [[ ${COMP_WORDS[0]##*/} == startrain && $COMP_CWORD -eq 1 && $current != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "logistic dnn wide-deep deepfm dlrm dssm din dien language skip-gram generate" -- "$current")
		return
	fi
	if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then
		form=("${COMP_WORDS[1]}")
	fi
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--protocol)
		mapfile -t COMPREPLY < <(compgen -W "grpc++ star_server star_server_lite" -- "$current")
		return
		;;
	--format)
		mapfile -t COMPREPLY < <(compgen -W "criteo census libsvm histories text" -- "$current")
		return
		;;
	esac
	case $current in
	-*) mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${form[@]}" --help 2>/dev/null | grep -oE -- '--[a-z-]+' | sort -u)" -- "$current") ;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	esac
}
complete -F _star_options startrain starbench
