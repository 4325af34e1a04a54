"""Mandarin Chinese: figures, units, money, times and dates in Han characters."""

from __future__ import annotations

import re
from collections.abc import Callable

from linly_pipeline.text.numbers import NUMBER, cardinal, digits, value
from linly_pipeline.text.script import HAN

_UNITS = {
    "km": "公里", "m": "米", "cm": "厘米", "mm": "毫米", "nm": "纳米", "µm": "微米", "kg": "公斤",
    "g": "克", "mg": "毫克", "µg": "微克", "t": "吨", "L": "升", "l": "升", "ml": "毫升", "mL": "毫升",
    "km/h": "公里每小时", "m/s": "米每秒", "km²": "平方公里", "m²": "平方米", "m³": "立方米",
    "cm²": "平方厘米", "cm³": "立方厘米", "Hz": "赫兹", "kHz": "千赫", "MHz": "兆赫", "GHz": "吉赫",
    "KB": "千字节", "kB": "千字节", "MB": "兆字节", "MB/s": "兆字节每秒", "GB/s": "吉字节每秒",
    "Mbps": "兆比特每秒", "GB": "吉字节", "TB": "太字节", "h": "小时", "min": "分钟", "s": "秒",
    "ms": "毫秒", "W": "瓦", "kW": "千瓦", "kWh": "千瓦时", "V": "伏", "mAh": "毫安时", "dB": "分贝",
    "°C": "摄氏度", "°F": "华氏度", "°": "度",
}  # fmt: skip
_MONEY = {
    "$": "美元", "US$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "￥": "元", "₩": "韩元", "₹": "卢比",
    "USD": "美元", "EUR": "欧元", "GBP": "英镑", "RMB": "元", "CNY": "元",
}  # fmt: skip
_SYMBOLS = {
    "&": "和", "+": "加", "=": "等于", "×": "乘", "÷": "除以", "±": "正负", "≈": "约等于", "≥": "大于等于",
    "≤": "小于等于", "≠": "不等于", "→": "到", "@": "at", "°": "度", "√": "根号", "²": "平方", "³": "立方",
    "½": "二分之一", "¼": "四分之一", "¾": "四分之三", "$": "美元", "€": "欧元", "£": "英镑",
}  # fmt: skip
# Two of something is 两, the number two is 二 (二月, 二号, 第二).
_MEASURES = (
    "个只条张本斤两次天年种位名件杯块辆台头匹家所座层间篇句段份对双套瓶碗盒箱包组米克吨升秒遍棵朵把公小点分倍"
    "千万亿人"
)
_LONGEST_AMOUNT = 9
# Mobile numbers of China, whose ones are read 幺.
_MOBILE = r"(?<![A-Za-z0-9.])1[3-9]\d{9}(?!\d)"


def read_chinese(text: str) -> str:
    """`text` with figures and signs as Han characters; Latin words stay as they are."""
    for pattern, reading in _RULES:
        text = pattern.sub(reading, text)
    return text


def _zh(number: str) -> str:
    return cardinal(value(number), "zh")


def _date(match: re.Match[str]) -> str:
    year, month, day = match.group(1, 2, 3)
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return match[0]
    return f"{digits(year, 'zh')}年{_zh(str(int(month)))}月{_zh(str(int(day)))}日"


def _time(match: re.Match[str]) -> str:
    hour, minute, second = match.group(1, 2, 3)
    if int(hour) > 24 or int(minute) > 59 or int(second or 0) > 59:
        return match[0]
    words = ("两" if int(hour) == 2 else _zh(str(int(hour)))) + "点"
    if int(minute) or second:
        words += _two_places(minute) + "分"
    return words + (_two_places(second) + "秒" if second else "")


def _two_places(number: str) -> str:
    return ("零" if 0 < int(number) < 10 else "") + _zh(str(int(number)))


def _percent(match: re.Match[str]) -> str:
    sign = "负" if match[1] else ""
    part = "千分之" if match[4] == "‰" else "百分之"
    return sign + part + _zh(match[2]) + (f"到{_zh(match[3])}" if match[3] else "")


def _money(match: re.Match[str]) -> str:
    symbol, number, large = match[1] or match[6], match[2] or match[4], match[3] or match[5] or ""
    return _zh(number) + large + _MONEY[symbol]


def _unit(match: re.Match[str]) -> str:
    number = "两" if match[1] == "2" else _zh(match[1])
    return number + _UNITS[match[2]]


def _number(match: re.Match[str]) -> str:
    if match[0].isdecimal() and len(match[0]) > _LONGEST_AMOUNT and not match[0].endswith("000"):
        return digits(match[0], "zh")
    return _zh(match[0])


def _always(words: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match.expand(words)


_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_CODES = "USD|EUR|GBP|RMB|CNY"

# In this order: what is longer or more special comes before its parts.
_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), reading)
    for pattern, reading in (
        (_MOBILE, lambda match: digits(match[0], "zh").replace("一", "幺")),
        (r"(?<![\d-])(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?![\d-])", _date),
        (r"(?<!\d)(\d{4}|\d{2}(?=年\d{1,2}月))(?=年)", lambda match: digits(match[1], "zh")),
        (r"(?<![\d:.])(\d{1,2})[:：](\d{2})(?:[:：](\d{2}))?(?![\d:])", _time),
        (rf"((?<![A-Za-z0-9)])[-−])?({NUMBER})(?:[%‰]?\s?[-–~～]\s?({NUMBER}))?\s?([%‰])", _percent),
        (r"(?<=\d)(?:\s?°[CF]?)?\s?[-–~～]\s?(?=[$€£¥￥]?-?\d)", _always("到")),
        (r"(?<![A-Za-z0-9.)])[-−](?=[$€£¥￥]?\d)", _always("负")),
        (r"[~～]\s?(?=[$€£¥￥]?\d)", _always("约")),
        (r"#(?=\d)", _always("第")),
        (
            rf"(US\$|[$€£¥￥₩₹])\s?({NUMBER})\s?([万亿千百]*)"
            rf"|({NUMBER})\s?([万亿千百]*)([€£]|(?:{_CODES})(?![A-Za-z]))",
            _money,
        ),
        (rf"(?<![A-Za-z0-9.])({NUMBER})\s?({_UNIT})(?![A-Za-z0-9²³])", _unit),
        (r"(?<![A-Za-z0-9/])(\d+)/(\d+)(?![A-Za-z0-9/])", lambda m: f"{_zh(m[2])}分之{_zh(m[1])}"),
        (r"(?<![\d.])\d+(?:\.\d+){2,}", lambda match: "点".join(_zh(part) for part in match[0].split("."))),
        (r"(?<=\d)\s?[:：]\s?(?=\d)", _always("比")),
        (r"(?<=\d)\s?[x×*]\s?(?=\d)", _always("乘")),
        (rf"(?<![\d.,第])2(?=[{_MEASURES}])", _always("两")),
        (r"(?<=[A-Za-z])-(?=\d)|(?<=\d)-(?=[A-Za-z])", _always("")),
        (NUMBER, _number),
        (rf"[{re.escape(''.join(_SYMBOLS))}]", lambda match: _SYMBOLS[match[0]]),
        (r"(?<=\S)\s?<\s?(?=\S)", _always("小于")),
        (r"(?<=\S)\s?>\s?(?=\S)", _always("大于")),
        (r"(?<=[A-Za-z])[/_](?=[A-Za-z])", _always(" ")),
        (rf"(?<=[{HAN}])/(?=[{HAN}])", _always("每")),
    )
)
