"""Words with a full stop that may not end a sentence; in lower case, without the last full stop."""

from __future__ import annotations


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# A name or an explanation follows.
BEFORE_NAMES = _set(
    "mr mrs ms dr prof st mt ft gen gov sen rep capt cmdr lt col sgt cpl maj adm rev hon pres supt fr msgr"
    " messrs mme mlle e.g i.e cf vs viz ca approx bzw z.b d.h"
)
# A number follows; without one they are words of their own ("The answer is no.").
BEFORE_NUMBERS = _set(
    "no nos fig figs vol vols ch sec pp p art eq jan feb mar apr jun jul aug sep sept oct nov dec"
)
# A sentence may end with them; the next word's capital letter tells.
MAYBE_AT_END = _set("etc al inc ltd corp co bros dept univ ave blvd rd jr sr est a.m p.m am pm u.s u.k")
# What a dot often joins to an ending ("example.com", "node.js", "main.py"): the first fragment waits to see.
# Waiting in vain costs one token of latency, not waiting may split a name.
NAMES_WITH_DOT = _set(
    "example google amazon booking github gitlab wikipedia youtube facebook twitter reddit baidu taobao qq"
    " weibo microsoft openai huggingface anthropic stackoverflow linkedin netflix node vue nuxt angular"
    " socket asp index main app setup config settings readme requirements package license utils helpers makefile"
    " numpy np pd plt os sys json www mail ftp domain yourdomain mydomain company yoursite mysite localhost"
    " hotmail gmail outlook yahoo"
)
