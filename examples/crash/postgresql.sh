#!/bin/sh
# Rows of PostgreSQL, each committed and promised; `write off` with synchronous_commit off.
#
#     blocklab crash --part tlc-3d-128 --mkfs ext4 --mem 512M \
#         --check "$PWD/examples/crash/postgresql.sh check" -- $PWD/examples/crash/postgresql.sh write
set -eu
rows=12
data=/mnt/postgresql
programs=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
as() { runuser -u postgres -- "$@"; }
ask() { psql -h $data -U postgres -qAt "$@" postgres; }
# Its sockets lie with its data: nothing else of the guest can be written by its user.
start() {
    as "$programs/pg_ctl" -D $data -w -t 600 -l $data/log \
        -o "-c listen_addresses= -c unix_socket_directories=$data -c synchronous_commit=$1" start > $data/started 2>&1 ||
        { tail -n 5 $data/started $data/log; exit 1; }
}
case "${1-} ${2-on}" in
"write on" | "write off")
    mkdir $data && chown postgres $data
    as "$programs/initdb" -D $data -A trust --no-locale > /dev/null
    start "${2-on}"
    {
        echo 'create table rows (number integer primary key, text text);'
        for number in $(seq $rows); do
            echo "insert into rows values ($number, repeat('x', 500));"
            echo "\\! blocklab-ack $number"
        done
    } | ask -v ON_ERROR_STOP=1
    as "$programs/pg_ctl" -D $data -m fast stop > /dev/null
    ;;
"check on")
    test -s "$BLOCKLAB_ACKS" || exit 0
    rm -f $data/postmaster.pid
    start on
    ask -c 'select number from rows where length(text) = 500 order by number' > /run/found
    as "$programs/pg_ctl" -D $data -m immediate stop > /dev/null
    while read -r number; do
        grep -qx "$number" /run/found || { echo "row $number was promised"; exit 1; }
    done < "$BLOCKLAB_ACKS"
    ;;
*) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
