"""Post the table of a dpcalc run as one comment on its pull request, from a workflow on `workflow_run`.

The report was made by a workflow that the pull request can change, so it is hostile data. Of at most 60 kB, only rows
that look exactly as dpcalc writes them are posted; in these, whatever a file could have worded stands as code. Which
pull request it is, the event and GitHub say, never the report.
"""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from urllib.parse import urlencode

MAX_ARCHIVE, MAX_REPORT, MAX_ROWS = 1_000_000, 60_000, 50
MARK = "<!-- dpcalc -->"  # begins the comment that is replaced by the next one
AUTHOR = "github-actions[bot]"
HEAD = re.compile(r"\*\*dpcalc check: (passed|failed|invalid|undecided)\*\*, (checked [\w ,:]{1,200})")
COLUMNS = "| config | verdict | before | after | budget | cause |", "| --- | --- | --- | --- | --- | --- |"
_CODE, _NUMBER = r"`[^`|]{1,200}`", r"(?:[0-9][0-9.e+-]{0,24}|inf)?"
_CAUSE = rf"(?:DPC\d{{3}}(?:, )?)*(?:{_CODE}(?:, and \d{{1,4}} more)?)?"
ROW = re.compile(rf"\| {_CODE} \| (?:passed|failed|invalid|undecided|no budget) \|(?: {_NUMBER} \|){{3}} {_CAUSE} \|")


def github(*words: str, limit: int = 10_000_000) -> bytes:
    """Return what `gh api` answers; SystemExit if it fails or says more than `limit` bytes."""
    with subprocess.Popen(["gh", "api", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        answer = process.stdout.read(limit + 1) if process.stdout else b""
        if len(answer) > limit:
            process.kill()
            sys.exit(f"gh api {words[0]}: expected at most {limit} bytes, got more")
    if process.returncode:
        sys.exit(f"gh api {words[0]}: exit code {process.returncode}")
    return answer


def report_of(archive: bytes) -> str:
    """Return the only file of an archive, of which no more than MAX_REPORT bytes are unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            (name,) = packed.namelist()
            with packed.open(name) as stream:
                data = stream.read(MAX_REPORT + 1)
    except (ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
        sys.exit("the report: expected an archive with one file, got another one")
    if len(data) > MAX_REPORT:
        sys.exit(f"the report: expected at most {MAX_REPORT} bytes, got more")
    return data.decode(errors="replace")


def comment(report: str, run: str) -> str:
    """Return the comment: verdict, the rows that are as dpcalc writes them, and the address of the run."""
    # Links to rules are dropped: an address in the report is anybody's.
    lines = [re.sub(r"\[(DPC\d{3})\]\([^)]*\)", r"\1", line) for line in report.split("\n")]
    head = HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        sys.exit("the report: expected the Markdown report of `dpcalc check`, got another file")
    rows = [line for line in lines if line.isprintable() and ROW.fullmatch(line)][:MAX_ROWS]
    hidden = sum(line.startswith("| ") for line in lines) - len(rows) - len(set(COLUMNS) & set(lines))
    table = ["", *COLUMNS, *rows] if rows else []
    more = [f"{hidden} more in the run."] if hidden > 0 else []
    told = f"As [the run]({run}) of this pull request reports it; whether it may be merged, the check decides."
    return "\n".join([MARK, f"**dpcalc: {head[1]}**, {head[2]}", *table, "", " ".join([told, *more])])


def main() -> None:
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    repository, run = event["repository"]["full_name"], event["workflow_run"]
    source = run["head_repository"]
    if run["event"] != "pull_request" or source is None:
        print("no comment: this is no run of a pull request")
        return
    # A run of a fork names no pull request: the open one of its branch is asked for, as long as the run is of its head.
    query = urlencode({"state": "open", "head": f"{source['owner']['login']}:{run['head_branch']}"})
    pulls = json.loads(github(f"repos/{repository}/pulls?{query}"))
    numbers = [int(pull["number"]) for pull in pulls if pull["head"]["sha"] == run["head_sha"]]
    query = urlencode({"name": os.environ["DPCALC_ARTIFACT"]})
    artifacts = json.loads(github(f"repos/{repository}/actions/runs/{int(run['id'])}/artifacts?{query}"))["artifacts"]
    if not (numbers and artifacts):
        print("no comment: there is no report, or no open pull request whose last commit this is")
        return
    archive = github(f"repos/{repository}/actions/artifacts/{int(artifacts[0]['id'])}/zip", limit=MAX_ARCHIVE)
    body = f"body={comment(report_of(archive), str(run['html_url']))}"
    for number in numbers:
        path = f"repos/{repository}/issues/{number}/comments"
        pages = json.loads(github(f"{path}?per_page=100", "--paginate", "--slurp"))
        earlier = [
            int(each["id"])
            for each in (each for page in pages for each in page)
            if each["user"]["login"] == AUTHOR and each["body"].startswith(MARK)
        ]
        place = (f"repos/{repository}/issues/comments/{earlier[0]}", "PATCH") if earlier else (path, "POST")
        github(place[0], "--method", place[1], "--raw-field", body)


if __name__ == "__main__":
    main()
