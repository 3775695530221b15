"""A check for CI: review the changes, print the findings, and exit with 1 if there are any."""

import sys
from dataclasses import dataclass

from holdfast.sync import Client


@dataclass
class Finding:
    file: str
    line: int
    problem: str


@dataclass
class Review:
    findings: list[Finding]


def main() -> int:
    with Client() as client:
        result = client.run(
            "Review the uncommitted changes. Report only what breaks something.",
            output=Review,
            mode="plan",  # it reads, and changes nothing
            max_seconds=600,
        )
        findings = result.output.findings  # raises RunNotCompleted if there is no answer, so the check does not pass
    for finding in findings:
        print(f"{finding.file}:{finding.line}: {finding.problem}")
    return 1 if findings else 0


sys.exit(main())
