"""The symbols: 100 classes of the stream, and the disjoint ones that the backbone was pre-trained on."""

from __future__ import annotations

STREAM: dict[str, str] = {
    "a": "A",
    "ain": "\u0639",  # arabic letter ain
    "airplane": "\u2708",  # airplane
    "alef": "\u05d0",  # hebrew letter alef
    "alpha": "\u03b1",  # greek small letter alpha
    "ampersand": "&",
    "an": "\u10d0",  # georgian letter an
    "anchor": "\u2693",  # anchor
    "arrow-circle": "\u21bb",  # clockwise open circle arrow
    "arrow-down-left": "\u2b0b",  # south west black arrow
    "arrow-exchange": "\u21c4",  # rightwards arrow over leftwards arrow
    "arrow-hook": "\u21a9",  # leftwards arrow with hook
    "arrow-right": "\u279c",  # heavy round-tipped rightwards arrow
    "arrow-up": "\u2191",  # upwards arrow
    "arrow-zigzag": "\u21af",  # downwards zigzag arrow
    "asterisk": "*",
    "at": "@",
    "ayb": "\u0531",  # armenian capital letter ayb
    "biohazard": "\u2623",  # biohazard sign
    "check": "\u2714",  # heavy check mark
    "cloud": "\u2601",  # cloud
    "command": "\u2318",  # place of interest sign
    "cross": "\u2718",  # heavy ballot x
    "de": "\u0414",  # cyrillic capital letter de
    "diamond": "\u25c6",  # black diamond
    "die": "\u2684",  # die face-5
    "dollar": "$",
    "e": "e",
    "envelope": "\u2709",  # envelope
    "euro": "\u20ac",  # euro sign
    "f": "F",
    "female": "\u2640",  # female sign
    "five": "5",
    "flag": "\u2691",  # black flag
    "flower": "\u273f",  # black florette
    "for-all": "\u2200",  # for all
    "four": "4",
    "g": "G",
    "gear": "\u2699",  # gear
    "h": "H",
    "hash": "#",
    "heart": "\u2665",  # black heart suit
    "hexagon": "\u2b22",  # black hexagon
    "house": "\u2302",  # house
    "infinity": "\u221e",  # infinity
    "k": "K",
    "knight": "\u265e",  # black chess knight
    "lambda": "\u03bb",  # greek small letter lamda
    "lamed": "\u05dc",  # hebrew letter lamed
    "m": "M",
    "male": "\u2642",  # male sign
    "notes": "\u266b",  # beamed eighth notes
    "omega": "\u03a9",  # greek capital letter omega
    "peace": "\u262e",  # peace symbol
    "pencil": "\u270f",  # pencil
    "percent": "%",
    "phar": "\u10e4",  # georgian letter phar
    "pi": "\u03c0",  # greek small letter pi
    "pilcrow": "\u00b6",  # pilcrow sign
    "plus-minus": "\u00b1",  # plus-minus sign
    "psi": "\u03a8",  # greek capital letter psi
    "queen": "\u265b",  # black chess queen
    "question": "?",
    "quote": "\u275d",  # heavy double turned comma quotation mark ornament
    "r": "R",
    "radioactive": "\u2622",  # radioactive sign
    "recycling": "\u267b",  # black universal recycling symbol
    "rook": "\u265c",  # black chess rook
    "rupee": "\u20b9",  # indian rupee sign
    "scissors": "\u2702",  # black scissors
    "seven": "7",
    "shamrock": "\u2618",  # shamrock
    "shcha": "\u0429",  # cyrillic capital letter shcha
    "shin": "\u05e9",  # hebrew letter shin
    "sigma": "\u03a3",  # greek capital letter sigma
    "skull": "\u2620",  # skull and crossbones
    "snowflake": "\u2744",  # snowflake
    "spade": "\u2660",  # black spade suit
    "star": "\u2605",  # black star
    "sun": "\u2600",  # black sun with rays
    "t": "T",
    "taurus": "\u2649",  # taurus
    "telephone": "\u260e",  # black telephone
    "three": "3",
    "triangle": "\u25b6",  # black right-pointing triangle
    "tsadi": "\u05e6",  # hebrew letter tsadi
    "two": "2",
    "umbrella": "\u2602",  # umbrella
    "w": "W",
    "waw": "\u0648",  # arabic letter waw
    "wheelchair": "\u267f",  # wheelchair symbol
    "xi": "\u039e",  # greek capital letter xi
    "y": "Y",
    "ya": "\u042f",  # cyrillic capital letter ya
    "yazh": "\u2d63",  # tifinagh letter yaz
    "yen": "\u00a5",  # yen sign
    "yery": "\u042b",  # cyrillic capital letter yeru
    "yin-yang": "\u262f",  # yin yang
    "yu": "\u042e",  # cyrillic capital letter yu
    "zhe": "\u0416",  # cyrillic capital letter zhe
}

# What choose.py printed, as code points: unlike the stream's symbols and unlike each other (see there for the measure).
PRETRAIN: tuple[str, ...] = tuple(
    chr(int(code, 16))
    for code in """
    27 2b 31 39 3c 3d 3e 4c 62 64 66 6b 6d 6e 6f 70 72 74 7a a2 a3 a4 a7 ac bf c6 df e6 141 142 152 181 184 187 18f
    191 192 194 19d 1a2 1a3 1a5 1aa 1ab 1b1 1b4 1b8 1ba 1be 1c2 1f6 221 223 224 234 235 239 23b 23f 240 242 246 248
    24b 24d 24f 256 25a 260 265 267 268 26c 26e 279 27b 27e 281 286 287 289 28d 28e 290 291 295 29b 29e 2a1 2a3 2a4
    2a6 2a8 2ab 2ac 2ad 2ae 373 376 37c 37d 394 3bd 3be 3c7 3c9 3cf 3d7 3de 3e0 3e1 3e3 3e6 3e7 3eb 3ec 402 409 41b
    45b 45f 463 466 468 46a 46d 46e 470 478 47d 47f 482 48a 499 4a0 4a2 4a4 4a6 4b3 4b5 4bc 4c3 4c5 4cb 4cd 4f6 4fa
    504 506 514 516 517 518 534 539 541 543 546 547 54a 552 554 556 55b 55c 55d 55e 55f 5c6 5d1 5d3 5e7 606 609 60a
    621 628 62a 62e 62f 630 631 632 633 637 641 642 643 645 646 64a 663 669 66a 684 689 68b 695 6a0 6a5 6a9 6aa 6ae
    6b6 6be 6c6 6ce 6f4 7c3 7c6 7cf 7d0 7d1 7d2 7d6 7da 7dc 7dd 7de 7e2 7f9 e3f e81 e87 e8a e8d e94 e96 e99 e9c e9d
    ea3 ea5 eaa eaf eb0 eb2 ebd ec0 ec1 ec2 ed4 ed6 ed8 10a2 10a5 10a8 10aa 10ab 10b5 10bc 10bd 10c5 10d3 10da 10e0
    10e2 10e3 10e5 10ef 10f0 10f1 10f2 10f3 10f4 10fb 1402 1406 140b 1412 1418 1425 142b 142c 142d 143e 1442 1443
    1446 1447 144d 1451 1458 1459 145c 1461 146a 1477 1478 147a 147d 147f 1480 1485 1487 149a 149f 14a6 14a9 14ac
    14af 14b2 14b6 14c1 14c4 14c8 14c9 14ca 14cc 14cd 14d5 14d8 14de 14e1 14e2 14e3 14e6 14e9 14ec 14ee 14f4 14f6
    14f7 14f8 14f9 14fe 14ff 1502 1503 1507 1512 1514 1516 1518 151a 151b 151d 1521 1522 1526 1527 1528 152a 152b
    152d 152e 152f 1530 1531 1532 1534 1535 1536 1539 153a 1545 1549 154c 154f 1550 1552 1553 1555 1557 1559 155a
    155f 1561 1564 1566 1567 157e 157f 1581 1584 1585 158b 158e 1592 1593 1595 15a0 15a2 15a4 15a9 1647 1670 1671
    1673 1676 1686 1687 168c 168d 168e 1691 1695 1696 1698 1699 1d12 1d13 1d16 1d1a 1d1e 1d7b 1efa 2030 203b 2042
    204b 204c 204d 2050 2051 2055 2056 2059 205b 20a0 20a1 20a6 20a7 20aa 20af 20b0 20b2 20b4 20ba 20bd 2104 2117
    2118 211f 2123 2125 212e 214b 2181 2193 2196 2197 2198 219c 219d 219e 21a0 21a2 21a3 21a8 21ac 21ad 21b0 21b1
    21b2 21b3 21b8 21b9 21c5 21c6 21d4 21d6 21d7 21d8 21da 21db 21dc 21dd 21df 21e4 21e5 21ea 21eb 21ee 21f1 21f2
    21f5 21f6 21f9 220e 2213 221a 2220 2231 2232 2234 2235 2237 2239 223f 2245 224e 224f 2251 2257 225e 2263 2265
    2266 2267 226a 226b 2272 2276 2277 227c 227d 2286 228b 228c 2290 2293 2297 22aa 22ab 22b0 22b1 22bb 22be 22bf
    22c8 22cb 22cc 22d0 22d1 22d2 22d3 22d4 22d8 22d9 22da 22db 22dc 22dd 22de 22df 22e4 22e7 22f0 22f3 22f5 22f8
    22fb 22fd 2301 2304 2305 2306 230c 230d 230e 230f 2319 231d 2325 2326 2328 232b 232c 2387 23ce 23cf 23e5 25a3
    25a4 25b2 25bc 25c0 25c8 25c9 25ca 25cc 25d2 25d3 25d6 25d7 25db 25dc 25de 25df 25e0 25e2 25e3 25e4 25e5 25eb
    25ec 2603 2604 2607 2608 260a 260b 2615 261a 261b 261c 261d 261e 261f 2621 2624 2638 263d 263e 263f 2641 2643
    2644 2645 2646 2647 2648 264a 264b 264c 264d 2650 2651 2652 2653 2654 265a 265d 2667 2668 266d 266f 267d 267e
    2692 2694 2695 2696 2697 2698 269b 269e 269f 26a1 26ad 26b5 26b6 26b7 26b8 26c0 26c1 270c 270d 2711 2716 2719
    271c 271e 271f 2720 273a 2749 2761 2762 279b 279f 27a7 27a9 27ab 27ac 27ad 27ae 27b2 27b3 27b4 27b6 27f0 27f1
    27f2 27f3 27f4 290a 290b 29fa 29fb 2a12 2a1b 2a1c 2a6a 2a6b 2a7f 2a80 2a83 2a84 2a91 2a92 2a93 2a94 2a99 2a9a
    2a9b 2a9c 2a9f 2aa0 2ab1 2ab5 2ab6 2af9 2afa 2b05 2b0d 2b0e 2b0f 2b10 2b11 2b16 2b17 2b18 2b19 2b1a 2b20 2c63
    2c65 2c66 2c68 2c74 2d00 2d01 2d03 2d06 2d0c 2d0f 2d10 2d1c 2d1f 2d33 2d3b 2d3f 2d44 2d46 2d53 2d56 2d5b 2d64
    2e1f a4d8 a4fe a650 a662 a666 a724 a728 a736 a738 a739 a73d a746 a78e a790 a7fd a7ff fffd 1030c 1030d 10314
    10319 1f42d 1f42e 1f431 1f435 1f602 1f604 1f607 1f613 1f629 1f631 1f634 1f639
    """.split()
)
