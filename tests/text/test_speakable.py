"""What is read aloud, for everything that a language model writes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.text import plain, speakable


@pytest.mark.parametrize(
    "text",
    ["", " ", "......", "”", "😀", "\n\n", "---", "**", "，", "……", "👨‍👩‍👧 🇩🇪 👍🏽", "()", "|---|---|"],
)
def test_nothing_speakable_is_empty(text: str) -> None:
    assert speakable(text) == ""


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("，你好", "你好"),
        ("好的。", "好的。"),
        ("今天天气很好我们去公园玩吧", "今天天气很好我们去公园玩吧"),
        ("我用 PyTorch 训练模型。", "我用 PyTorch 训练模型。"),
        ("你好, I have 3 apples", "你好，I have three apples"),
        ("3.14", "three point one four"),
        ("10:30", "ten thirty"),
        ("v1.2.3", "version one point two point three"),
        (
            "8,848.86 meters (29,031.7 feet)",
            "eight thousand eight hundred forty-eight point eight six meters,"
            " twenty-nine thousand thirty-one point seven feet",
        ),
        ("98.6°F", "ninety-eight point six degrees Fahrenheit"),
        ("22,1 °C", "twenty-two point one degrees Celsius"),
        ("A100", "A-one hundred"),
        ("A1、A2、A3区", "A一、A二、A三区"),
        ("4B", "four B"),
        ("10斤苹果5.5元", "十斤苹果五点五元"),
        ("1234567890", "one two three four five six seven eight nine zero"),
        ("J.K. Rowling", "J K Rowling"),
        ("Dr. Smith", "Doctor Smith"),
        ("a@b.com", "a at b dot com"),
        ("https://a.b/c?d=1", "a dot b slash c"),
        ("`code`", "code"),
        ("**bold**", "bold"),
        ("| Name | Age |\n|---|---|\n| Ann | 30 |", "Name, Age. Ann, thirty"),
        ("10 x 10", "ten by ten"),
    ],
)
def test_what_users_ran_into_is_read_sensibly(text: str, spoken: str) -> None:
    assert speakable(text) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("It costs $5.50.", "It costs five dollars and fifty cents."),
        ("$1, £0.99 and 3€", "one dollar, ninety-nine pence and three euros"),
        ("about $3.5 million", "about three point five million dollars"),
        ("on March 5, 2024", "on March fifth, twenty twenty-four"),
        ("on 2024-03-05", "on March fifth, twenty twenty-four"),
        ("due 12/25/1999", "due December twenty-fifth, nineteen ninety-nine"),
        ("13/45/1999 is no date", "thirteen forty-five nineteen ninety-nine is no date"),
        ("at 10:05 a.m. and 9:00", "at ten oh five AM and nine o'clock"),
        ("25:61 and 16:9", "twenty-five to sixty-one and sixteen to nine"),
        ("the 1990s and 2007", "the nineteen nineties and two thousand seven"),
        ("1905 and 1500 people", "nineteen oh five and fifteen hundred people"),
        ("1,000,000 and 1000000000", "one million and one billion"),
        ("-5°C to 3°C", "minus five degrees Celsius to three degrees Celsius"),
        ("3-5 km at 60 km/h", "three to five kilometers at sixty kilometers per hour"),
        ("1 km and 1.0 kg", "one kilometer and one point zero kilograms"),
        ("half is 50%, or 1/2", "half is fifty percent, or one half"),
        ("3/4 and 2/3", "three quarters and two thirds"),
        ("the 1st, 2nd, 23rd", "the first, second, twenty-third"),
        ("GPT-4o, MP3, COVID-19", "GPT four o, MP three, COVID nineteen"),
        ("C++ and C#", "C plus plus and C sharp"),
        ("2 + 2 = 4, 3 × 4 = 12", "two plus two equals four, three times four equals twelve"),
        ("if x > 3 & y <= 2", "if x greater than three and y at most two"),
        ("agent 007", "agent zero zero seven"),
        ("call 555-1234", "call five five five, one two three four"),
        ("10k users", "ten thousand users"),
        ("No. 5, but no. Not me.", "Number five, but no. Not me."),
        ("Mr. X vs. Ms. Y, e.g. today", "Mister X versus Miz Y, for example today"),
        ("pears, plums, etc.", "pears, plums, et cetera."),
        ("#1 fan", "number one fan"),
        ("from 9 a.m.–5 p.m.", "from nine AM to five PM."),
        ("$30k–$40k/year", "thirty thousand dollars to forty thousand dollars per year"),
        ("an i7-13700K", "an i seven-thirteen thousand seven hundred K"),
        ("7/10, 24/7, 50/50", "seven out of ten, twenty-four seven, fifty fifty"),
        ("St. Paul lives in Main St. now", "Saint Paul lives in Main Street now"),
        ("6'2, H₂O and 10⁶", "six foot two, H-two O and ten to the power of six"),
    ],
)
def test_english_figures_become_words(text: str, spoken: str) -> None:
    assert speakable(text) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("今天是2024年3月5日。", "今天是二零二四年三月五日。"),
        ("2024-01-02开会", "二零二四年一月二日开会"),
        ("10:05开会，2:30结束", "十点零五分开会，两点三十分结束"),
        ("气温22.5℃，湿度50%。", "气温二十二点五摄氏度，湿度百分之五十。"),
        ("增长3-5%，也就是-5°C", "增长百分之三到五，也就是负五摄氏度"),
        ("价格是$5.5万，或者¥100", "价格是五点五万美元，或者一百元"),
        ("电话13812345678", "电话幺三八幺二三四五六七八"),
        ("2个人，2月2日，第2次，12个", "两个人，二月二日，第二次，十二个"),
        ("比例2:1，占1/3", "比例二比一，占三分之一"),
        ("速度100km/h，重5kg", "速度一百公里每小时，重五公斤"),
        ("版本1.2.3", "版本一点二点三"),
        ("１２３人", "一百二十三人"),
        ("３×４＝１２吗", "三乘四等于十二吗"),
        ("发到a@b.com", "发到a at b点com"),
        ("价格￥9,999起，COVID-19，2000ml水", "价格九千九百九十九元起，COVID十九，两千毫升水"),
        ("1. **多喝水**：120~140次/分", "一、多喝水：一百二十到一百四十次每分"),
        ("《红楼梦》（第2版）", "红楼梦，第二版"),
        ("他说：“你好！”", "他说：你好！"),
        ("他——我哥哥——来了", "他，我哥哥，来了"),
        ("床前明月光\n疑是地上霜", "床前明月光，疑是地上霜"),
    ],
)
def test_chinese_figures_become_han_characters(text: str, spoken: str) -> None:
    assert speakable(text) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("## Title\n\n- one\n- *two*\n\n1. three", "Title. one. two. one. three"),
        ("see [the docs](https://x.org/a) and ![a cat](cat.png)", "see the docs and a cat"),
        ("**重点：**内容", "重点：内容"),
        ("an unclosed **bold", "an unclosed bold"),
        ("Run:\n```sh\nrm -rf x\n```\nDone.", "Run: Done."),
        ("- [ ] buy milk", "buy milk"),
        ("> quoted\n> words", "quoted words"),
        ("~~no~~ yes[1] &amp; maybe<br>later", "no yes and maybe later"),
        ("1984.", "nineteen eighty-four."),
        ("3) three", "three, three"),
        ("a_b and `snake_case()`", "a b and snake case"),
        ("Great! 🎉🎉 Really 👍🏽.", "Great! Really."),
        ("Hello :) there", "Hello there"),
        ("“Hi!” she said—‘really’?!", "Hi! she said, really!"),
        ("don’t stop... now!!!", "don't stop… now!"),
        ("(maybe)", "maybe"),
        ("See www.x-y.com/docs/get-started#top.", "See x dash y dot com slash docs slash get started."),
        ("https://x.org/a/b/c/d?e=f", "x dot org"),
        ("Edit main.py and docs/a.html.", "Edit main dot py and docs slash a dot html."),
    ],
)
def test_marks_are_not_read(text: str, spoken: str) -> None:
    assert speakable(text) == spoken


@pytest.mark.parametrize(
    ("text", "language", "spoken"),
    [
        ("Das kostet 5 Euro.", "de", "Das kostet 5 Euro."),
        ("日本語で3個", "", "日本語で3個"),
        ("Это 5 книг", "", "Это 5 книг"),
        ("5개", "ko", "5개"),
        ("3.14", "zh", "三点一四"),
        ("I have 2 apples", "zh", "I have two apples"),
        ("3.14", "en", "three point one four"),
    ],
)
def test_the_language_decides_how_figures_are_read(text: str, language: str, spoken: str) -> None:
    assert speakable(text, language) == spoken


def test_plain_keeps_figures_and_links_readable() -> None:
    assert (
        plain("**Mount Everest** is `8,848` m, see [here](https://a.b).")
        == "Mount Everest is 8,848 m, see here."
    )


ANYTHING = st.text(
    st.sampled_from(
        "ab Z.,!?-*_`#|[](){}<>\"'“”…—0123456789:/%$€°℃×+=@&~^\\\n\t你好十万，。！？（）😀é한ひ\u200d\ufe0f\x00\xa0"
    )
)


@given(ANYTHING)
def test_any_text_has_a_spoken_form_without_marks_or_gaps(text: str) -> None:
    spoken = speakable(text)
    assert spoken == spoken.strip()
    assert not set('*`#|[](){}"“”😀\n\t\x00\\') & set(spoken)
    assert "  " not in spoken
    assert spoken == "" or spoken[0].isalnum()


@given(ANYTHING)
def test_english_and_chinese_leave_no_figures(text: str) -> None:
    if not set("ひ한") & set(text):
        assert not set("0123456789") & set(speakable(text))


@pytest.mark.parametrize(
    "unit", ["|  ", "| :--", "[a](", "**_a", "1-", "a.", "a@", "$1,", "a/", "—", "( ", "1 你", "  "]
)
def test_reading_5000_characters_takes_no_long_time(unit: str) -> None:
    start_s = time.process_time()
    speakable((unit * 5000)[:5000] + "x")
    assert time.process_time() - start_s < 1


@given(st.integers(0, 10**9 - 1))
def test_a_plain_number_is_read_in_words_only(number: int) -> None:
    assert speakable(str(number)).replace(" ", "").replace("-", "").isalpha()
