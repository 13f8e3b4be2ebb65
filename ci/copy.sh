# shellcheck shell=bash
# To be sourced. copy_to FOLDER: makes it a copy of the tracked files as they are now. What has been built in it stays, and
# files that do not differ keep their times, so that little is built again.
copy_to() {
    local commit=HEAD
    git update-index -q --refresh
    git diff --quiet HEAD || commit=$(git -c user.name=copy -c user.email=copy stash create)
    [[ -d $1/.git ]] || git clone -q --shared --no-checkout "$PWD" "$1"
    git -C "$1" reset -q --hard "$(git rev-parse "$commit")"
    git -C "$1" clean -fdq
}
