# Sourced by programs that need a PostgreSQL server of their own for a while.
# shellcheck shell=bash
database='' database_problem='' database_programs=''

# start_database FOLDER: starts a server that listens on a socket in the folder, and sets $database to its process. Its user is
# demo. PostgreSQL refuses to run as root. Returns 1 if it did not start, and $database_problem says why.
start_database() {
  local folder=$1 as_user=()
  database_programs=$(find /usr/lib/postgresql/*/bin -name initdb -printf '%h\n' 2>/dev/null | sort -V | tail -n 1)
  if [[ -z $database_programs ]]; then
    database_problem="PostgreSQL's programs are missing from /usr/lib/postgresql"
    return 1
  fi
  if ((EUID == 0)); then
    chown nobody:nogroup "$folder"
    as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
  fi
  if ! (cd / && "${as_user[@]}" "$database_programs/initdb" -D "$folder/data" -U demo -A trust -E UTF8 --no-locale >"$folder/initdb.log" 2>&1); then
    database_problem="initdb failed: $(tail -n 1 "$folder/initdb.log")"
    return 1
  fi
  run_database "$folder"
}

# run_database FOLDER: starts the server of such a folder. Also starts it again after its end.
run_database() {
  local folder=$1 as_user=()
  ((EUID != 0)) || as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
  (cd / && exec "${as_user[@]}" "$database_programs/postgres" -D "$folder/data" -c listen_addresses= -c "unix_socket_directories=$folder" \
    -c shared_buffers=128MB >>"$folder/database.log" 2>&1) &
  database=$!
  for _ in $(seq 400); do
    "$database_programs/pg_isready" --quiet -h "$folder" && return
    sleep 0.05
  done
  database_problem="PostgreSQL did not start within 20 seconds: $(tail -n 1 "$folder/database.log")"
  return 1
}

stop_database() {
  kill -INT "$database"
  wait "$database" || true
  database=''
}
