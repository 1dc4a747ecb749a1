import subprocess
import sys
from pathlib import Path

import pytest

from workloads import pi


def machin_pi(decimals):
    """Pi by Machin's formula on long integers: shares nothing with the spigot."""
    one = 10 ** (decimals + 20)

    def arctan_of_inverse(x):
        power, total, divisor = one // x, one // x, 1
        while power:
            power //= -x * x
            divisor += 2
            total += power // divisor
        return total

    digits = str((16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) // 10**20)
    return f"3.{digits[1:]}" if decimals else "3"


def test_first_fifty_digits():
    assert pi.pi_digits(50) == "3.14159265358979323846264338327950288419716939937510"


def test_agrees_with_machin():
    # 768 ends in the six nines of digits 762 to 767 and one more: the carries' hardest case within reach.
    for decimals in (*range(40), 768):
        assert pi.pi_digits(decimals) == machin_pi(decimals)


def test_negative_decimals_are_refused():
    with pytest.raises(ValueError, match="decimals is -1"):
        pi.pi_digits(-1)


def test_prints_the_digits(capsys):
    assert pi.main(["5"]) == 0
    assert capsys.readouterr().out == "3.14159\n"


def test_quiet_prints_the_times_of_the_process_instead(capsys):
    assert pi.main(["5", "--quiet"]) == 0
    fields = dict(field.split("=") for field in capsys.readouterr().out.split())
    assert set(fields) == {"cpu_s", "began_unix_s", "ended_unix_s"}
    assert all(float(value) >= 0 for value in fields.values())


@pytest.mark.parametrize("digits", ["-1", "many", "1.5", "", "1000001", "9" * 5000])
def test_bad_digits_are_wrong_usage(capsys, digits):
    with pytest.raises(SystemExit) as exit_:
        pi.main([digits])
    assert exit_.value.code == 2
    assert "is not a whole number from 0 to 1000000" in capsys.readouterr().err


def test_runs_on_the_standard_library_alone():
    # -I -S: no site-packages, no environment; a container image for it needs Python and this one package.
    root = str(Path(pi.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {root!r}); from workloads import pi; sys.exit(pi.main(['3']))"
    finished = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "3.141\n", "")


def test_sigterm_ends_it_at_once_with_143(until, awaits_sigterm):
    arguments = [sys.executable, "-m", "workloads.pi", "100000"]  # hours, unless it is ended
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            until(lambda: awaits_sigterm(process.pid))
            process.terminate()
            output = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == 143
    assert output == (b"", b"")
