"""PostgreSQL refuses to run as root: who runs it then, and how they reach its files."""

import contextlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import RuleBroken
from app.infrastructure.embedded.home import explained

SERVER_USER = "pgserver"
# Lets the server's user pass folders that only root may enter; asked for only where a folder on the way needs it.
READ_SEARCH = "+dac_read_search"


@dataclass(frozen=True)
class ServerUser:
    """An operating system user and the words before a command that run it as them."""

    uid: int
    gid: int
    prefix: tuple[str, ...]

    def own(self, path: Path) -> None:
        """Make a file or folder theirs."""
        if self.prefix:
            with explained(path):
                os.chown(path, self.uid, self.gid)


def server_user(folder: Path, data: Path, program: Path) -> ServerUser:
    """Who runs the server: ourselves, or, when we are root, the owner of its data or a user made for it."""
    if os.geteuid() != 0:
        return ServerUser(os.geteuid(), os.getegid(), ())
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise RuleBroken("PostgreSQL does not run as root and setpriv is missing: apt install util-linux.")
    entry = _owner_of(data) or _made_user()
    with explained(folder):
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    plain = (setpriv, f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups")
    return ServerUser(entry.pw_uid, entry.pw_gid, _prefix_that_reaches(plain, folder, program))


def _owner_of(data: Path) -> "pwd.struct_passwd | None":
    uid = data.stat().st_uid if data.exists() else 0
    return pwd.getpwuid(uid) if uid else None


def _made_user() -> pwd.struct_passwd:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SERVER_USER)
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    made = useradd and subprocess.run(  # noqa: S603 (our own argument list, no shell)
        [useradd, "--system", "--shell=/usr/sbin/nologin", SERVER_USER], capture_output=True, check=False
    )
    if not made or made.returncode != 0:
        raise RuleBroken(
            f"PostgreSQL does not run as root and the user {SERVER_USER} cannot be made: "
            f"run `useradd --system {SERVER_USER}`, or run Retold as an ordinary user."
        )
    return pwd.getpwnam(SERVER_USER)


def _prefix_that_reaches(plain: tuple[str, ...], folder: Path, program: Path) -> tuple[str, ...]:
    able = (*plain, f"--inh-caps={READ_SEARCH}", f"--ambient-caps={READ_SEARCH}")
    for prefix in ((*plain, "--"), (*able, "--")):
        if _reaches(prefix, folder, program):
            return prefix
    # Most containers withhold the capability. The home is ours: others may then pass it, though still not list it.
    home = folder.parent
    with explained(home):
        home.chmod(0o711)
    if _reaches((*plain, "--"), folder, program):
        return (*plain, "--")
    with explained(home):
        home.chmod(0o700)
    raise RuleBroken(
        f"PostgreSQL does not run as root, and its user cannot reach {program} and {folder}: move both below folders "
        f"that everybody may enter, grant the capability CAP_DAC_READ_SEARCH, or run Retold as an ordinary user."
    )


def _reaches(prefix: tuple[str, ...], folder: Path, program: Path) -> bool:
    # Not `test -x`: access(2) leaves the capability out.
    checks = ((str(program), "--version"), ("ls", "-d", f"{folder}/."))
    return all(
        subprocess.run([*prefix, *check], capture_output=True, check=False, cwd="/").returncode == 0  # noqa: S603
        for check in checks
    )
