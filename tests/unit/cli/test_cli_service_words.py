"""Refusals of services suggest what was meant, with the option that it belongs to."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from accelsim.cli import main

TOKENS = ("serve", "llama?layers=1,hidden=64", "--on", "t4")


@pytest.mark.parametrize(("given", "told"), [
    ((*TOKENS, "--load", "8/s"), "did you mean 'poisson:8/s'"),
    ((*TOKENS, "--load", "poisson"), "--load: 'poisson'; expected a rate, such as poisson:8/s"),
    ((*TOKENS, "--load", "closed"), "a number of clients, such as closed:64"),
    ((*TOKENS, "--load", "closed:1e9"), "'1e9'; expected a number of clients of at most 1,000,000"),
    ((*TOKENS, "--load", "poisson:8/day"), "expected requests per second from 1e-06 to 1e+06, such as poisson:8/s or"),
    ((*TOKENS, "--lengths", "lognormal:8,8,cv=-1"), "'-1'; expected a number above 0, such as cv=0.5"),
    ((*TOKENS, "--trace", "."), "cannot be read: Is a directory; expected a CSV file"),
    ((*TOKENS, "--load", "rates:."), "cannot be read: Is a directory; expected a CSV file"),
    ((*TOKENS, "--load", "gamma:8/s,cw=3"), "did you mean 'cv'"),
    ((*TOKENS, "--lengths", "1024,256"), "did you mean 'lognormal:1024,256'"),
    ((*TOKENS, "--lengths", "lognormal:1k,256"), "'1k'; expected tokens, 1 or more, such as 1024"),
    ((*TOKENS, "--limit", "ttft=3"), "a time with its unit, such as ttft=10ms"),
    ((*TOKENS, "--prefix", "shar=0.5"), "did you mean 'share'"),
    ((*TOKENS, "--router", "least"), "--router: unknown router 'least'"),
    ((*TOKENS, "--scheduler", "dynamic:max=4"), "no scheduler 'dynamic' for language models; expected one of vllm"),
    ((*TOKENS, "--speculate", "draft=lama"), "--speculate: lama does not generate tokens"),
    (("serve", "llama3-8b", "--on", "h100"), "expected h100-nvl, h100-pcie, h100-sxm, or another"),
    (("serve", "resnet50", "--on", "dgx-h100"), "--on: dgx-h100 is a cluster; expected a chip"),
    (("study", "service", "resnet50", "--on", "dgx-h100"), "did you mean 'h100-sxm'"),
    (("study", "service", "llama3-8b", "--on", "h100-sxm"), "llama3-8b is a language model, whose requests share steps"),
])  # fmt: skip
def test_what_was_meant_is_told(given: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2 and told in " ".join(done.output.split()), done.output
