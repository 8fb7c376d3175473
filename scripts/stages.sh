# Stages of a long run, each with its time. Sourced by scripts/test and scripts/test-full.

STAGES=$(mktemp)
export STAGES

# stage NAME COMMAND…: runs it and notes its result and its time. A stage that fails does not end the others.
stage() {
	stage_name=$1
	shift
	echo "=== $stage_name"
	stage_begin=$(date +%s)
	stage_code=0
	"$@" || stage_code=$?
	printf '%s\t%s\t%s\n' "$stage_name" "$(($(date +%s) - stage_begin))" "$stage_code" >>"$STAGES"
	return 0
}

# skipped NAME: notes a stage that was left out by name.
skipped() { printf '%s\t-\t-\n' "$1" >>"$STAGES"; }

# print_stages: all stages with their times; false if one of them failed.
print_stages() {
	awk -F'\t' '
		BEGIN { printf "\n%-34s %9s  %s\n", "stage", "time", "result" }
		$3 == "unsteady" { printf "%s: failed, then passed twice alone\n", $1; next }
		$3 == "-" { printf "%-34s %9s  left out\n", $1, "-"; next }
		{
			printf "%-34s %3d m %02d s  %s\n", $1, $2 / 60, $2 % 60, $3 == 0 ? "passed" : "FAILED (" $3 ")"
			all += $2
			failed += $3 != 0
		}
		END { printf "%-34s %3d m %02d s\n", "all", all / 60, all % 60; exit failed > 0 }' "$STAGES"
}

# allowed NAME: true if RTWIRE_TEST_ALLOW_SKIP names it.
allowed() {
	case ",${RTWIRE_TEST_ALLOW_SKIP:-}," in
	*",$1,"*) return 0 ;;
	*) return 1 ;;
	esac
}

# random_seed: a new number for a run's random tests.
random_seed() { od -An -N4 -tu4 /dev/urandom | tr -d ' '; }
