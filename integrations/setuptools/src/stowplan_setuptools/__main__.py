"""`python -m stowplan_setuptools --into FOLDER`: the same files for build systems without plugins, CMake first of all.

scikit-build-core builds with CMake, which installs the folder into the wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stowplan.cli.options import Parser
from stowplan.cli.output import print_error
from stowplan.errors import StowplanError
from stowplan_setuptools.making import make, packaged
from stowplan_setuptools.settings import Settings


def main() -> int:
    try:
        parser = Parser(prog="python -m stowplan_setuptools", description="Write the files of a project's packages.")
        parser.add_argument("--project", metavar="FOLDER", type=Path, default=Path(), help="where pyproject.toml is")
        parser.add_argument("--into", metavar="FOLDER", type=Path, required=True, help="PACKAGE/NAME.stow goes there")
        arguments = parser.parse_args()
        jobs = packaged(arguments.project, {})
        folders = {job.package: arguments.into.joinpath(*job.package.split(".")) for job in jobs}
        make(jobs, folders, Settings().terms, print)
    except StowplanError as err:
        print_error(err, as_json=False)
        return err.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
