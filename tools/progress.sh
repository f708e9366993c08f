# shellcheck shell=bash
# progress.sh - sourced by ./run and ./test: shows on stderr how far a command is. On a terminal
# this is one line that is drawn again; elsewhere it is one line for each quarter.

# progress_show NAME: reads lines "DONE TOTAL" until the input ends. DONE can be a sum.
progress_show()
{
    local name=$1 start=$SECONDS done_ total percent quarter=-1
    while read -r done_ total; do
        percent=$((100 * (done_) / total))
        if [ -t 2 ]; then
            printf '\r%s: %d %%, %d s\033[K' "$name" "$percent" $((SECONDS - start)) >&2
        elif [ $((percent / 25)) -gt "$quarter" ]; then
            printf '%s: %d %%, %d s\n' "$name" "$percent" $((SECONDS - start)) >&2
            quarter=$((percent / 25))
        fi
    done
    # The line says nothing once the command has ended.
    if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

# progress_of_ninja LOG: reads the output of ninja, which it also writes into LOG.
progress_of_ninja()
{
    tee "$1" | sed -un 's/^\[\([0-9]*\)\/\([0-9]*\)\] .*/\1 \2/p' | progress_show building
}

# progress_of_apt: reads the output of apt-get with APT::Status-Fd=1, first about the downloads,
# then about the installations.
progress_of_apt()
{
    sed -un 's/^dlstatus:[^:]*:\([0-9]*\)[.0-9]*:.*/\1 200/p
            s/^pmstatus:[^:]*:\([0-9]*\)[.0-9]*:.*/100+\1 200/p' | progress_show installing
}
