// sentences.mjs - prose in many scripts, by language. The texts of the tests and of the benchmark
// are composed of it.
export const SENTENCES = {
    english: [
        "The ferry leaves at half past six, unless the wind turns before breakfast.",
        "She didn't say why she'd come; we'll find out when they've all gone home.",
        "In 1987 the harbour was rebuilt at a cost of $4,250,000, and nobody's sure who paid.",
        "Please forward this to the accounting department (they're on the third floor).",
        "It's raining again, isn't it? I'd rather stay inside and read about tokenizers.",
    ],
    german: [
        "Die Straßenbahnhaltestelle liegt gegenüber der Universitätsbibliothek.",
        "Übermorgen fährt der Zug um 7:45 Uhr, falls er überhaupt fährt.",
        "Fünf ältere Herren prüften den Rechnungsbetrag von 1.234,56 € größtenteils schweigend.",
    ],
    french: [
        "L'été dernier, nous avons loué une maison près de la forêt; elle n'était pas chère.",
        "Où est passée la clé ? « Je l'ai laissée sur l'étagère », répondit-il.",
        "Ça coûte 12,50 € aujourd'hui, mais demain ce sera peut-être différent.",
    ],
    spanish: [
        "¿Quién dejó la puerta abierta? ¡El niño se escapó otra vez!",
        "Mañana por la mañana llevaré los periódicos a la señora Núñez.",
        "El año pasado crecieron las exportaciones un 3,7 % según el informe.",
    ],
    polish: [
        "Źdźbło trawy zachwiało się, gdy chrząszcz wspiął się na jego szczyt.",
        "Proszę przyjść jutro o ósmej rano i zabrać ze sobą dokumenty.",
    ],
    turkish: [
        "İstanbul'da yağmur yağıyordu ve ışıklar suya yansıyordu.",
        "Çocuklar bahçede oynarken büyükanneleri çay demliyordu.",
    ],
    vietnamese: [
        "Tôi đã đọc quyển sách này từ lâu rồi nhưng vẫn còn nhớ rõ từng chi tiết.",
        "Buổi sáng ở Hà Nội thường bắt đầu bằng một bát phở nóng.",
    ],
    swahili: [
        "Watoto walikwenda shuleni mapema asubuhi kabla ya jua kuchomoza.",
    ],
    russian: [
        "Вчера вечером мы долго гуляли по набережной и говорили о пустяках.",
        "Съешь ещё этих мягких булок, а потом выпей чаю — времени достаточно.",
        "В 2019 году население города составило 1 435 200 человек.",
    ],
    ukrainian: [
        "Її під'їзд знаходиться за рогом, біля старої аптеки.",
    ],
    greek: [
        "Το πλοίο έφυγε νωρίς το πρωί και η θάλασσα ήταν ήσυχη.",
        "Ποιος ξέρει τι θα φέρει η αυριανή μέρα;",
    ],
    hebrew: [
        "הספר נמצא על המדף העליון, ליד החלון הגדול.",
        "שָׁלוֹם לְכֻלָּם, מַה שְּׁלוֹמְכֶם הַיּוֹם?",
    ],
    arabic: [
        "ذهبنا إلى السوق في الصباح الباكر واشترينا الخبز والزيتون.",
        "كَانَ الطَّقْسُ جَمِيلًا فِي ذٰلِكَ الْيَوْمِ، أليس كذلك؟",
        "وصل القطار في الساعة ٧:٣٠ مساءً متأخراً ١٥ دقيقة.",
    ],
    persian: [
        "او می‌خواهد کتاب‌های تازه‌ای را که خریده است به ما نشان بدهد.",
    ],
    hindi: [
        "कल शाम को हम नदी के किनारे बैठकर पुराने गीत सुन रहे थे।",
        "क्या आप मुझे बता सकते हैं कि स्टेशन किस ओर है? धन्यवाद!",
        "पुस्तकालय में १२,५०० किताबें हैं।",
    ],
    bengali: [
        "আজ সকালে বৃষ্টি হয়েছিল, তাই মাঠটা এখনও ভেজা।",
    ],
    tamil: [
        "நாங்கள் நேற்று கடற்கரைக்குச் சென்று சூரிய அஸ்தமனத்தைப் பார்த்தோம்.",
    ],
    telugu: [
        "రేపు ఉదయం మా ఇంటికి అతిథులు వస్తున్నారు.",
    ],
    thai: [
        "เมื่อวานนี้ฝนตกหนักมากจนรถติดไปทั้งเมือง",
        "ขอบคุณที่ช่วยแนะนำร้านอาหารอร่อยๆ ให้เรานะครับ",
    ],
    khmer: [
        "ព្រឹកនេះអាកាសធាតុត្រជាក់ស្រួលណាស់។",
    ],
    burmese: [
        "မနေ့က ကျွန်တော်တို့ ဈေးကို သွားခဲ့ကြတယ်။",
    ],
    georgian: [
        "დილით მთებში თოვლი მოვიდა და გზა დაიკეტა.",
    ],
    armenian: [
        "Երեկոյան մենք նստեցինք պատշգամբում և լռությամբ նայեցինք քաղաքին։",
    ],
    amharic: [
        "ትናንት ማታ ከጓደኞቼ ጋር ቡና ጠጣሁ።",
    ],
    chinese: [
        "昨天晚上我们沿着河边走了很久，谈起了小时候的事情。",
        "请问去火车站怎么走？大约需要20分钟左右。",
        "根据2023年的统计数据，该城市人口增长了百分之三点五。",
        "這本書的作者住在臺北，他每週都會寫一篇專欄。",
    ],
    japanese: [
        "昨日の夜、友だちと一緒に新しいレストランへ行きました。",
        "コンピューターの調子が悪いので、明日修理に出すつもりです。",
        "すみません、この電車は東京駅に止まりますか？",
        "東京都の人口は約1,400万人である。",
    ],
    korean: [
        "어제 저녁에 비가 많이 와서 집에서 책을 읽었습니다.",
        "내일 오전 10시에 회의가 있으니 늦지 않게 와 주세요.",
    ],
};

export const CODE = [
    'static int count_words(const char *text, size_t len)\n{\n    int words = 0;\n\n'
        + '    for (size_t i = 0; i < len; i++)\n        words += text[i] == \' \';\n'
        + '    return words + 1;\n}\n\n',
    'def merge(left, right):\n    """Joins two sorted lists."""\n    out = []\n'
        + '    while left and right:\n        out.append((left if left[0] <= right[0] else right)'
        + '.pop(0))\n    return out + left + right\n\n\n',
    'export async function fetchAll(urls, { limit = 8, signal } = {}) {\n  const results = [];\n'
        + '  for (const url of urls) {\n    if (signal?.aborted) throw signal.reason;\n'
        + '    results.push(await fetch(`${url}?page=${results.length}`).then((r) => r.json()));\n'
        + '  }\n  return results;\n}\n',
    'SELECT s.id, COUNT(*) AS n FROM sessions s\n  LEFT JOIN messages m ON m.session_id = s.id\n'
        + ' WHERE s.updated_at > 1700000000000 GROUP BY s.id HAVING n >= 10 ORDER BY n DESC;\n',
    '<div class="row row--wide" data-id="42">\n\t<a href="https://example.org/a?b=c&amp;d=e#f">'
        + 'more&hellip;</a>\n</div>\n',
    'impl<T: Clone + Ord> Heap<T> {\n    pub fn push(&mut self, item: T) -> Option<&T> {\n'
        + '        self.items.push(item);\n        self.sift_up(self.items.len() - 1);\n'
        + '        self.items.first()\n    }\n}\n\n',
    '#!/bin/sh\nset -eu\nfor f in "$HOME"/*.log; do\n\tgzip -9 -- "$f" && mv "$f.gz" /var/archive/\n'
        + 'done\r\n',
];

export const EMOJI = ['😀', '🎉', '👍🏽', '👩‍💻', '👨‍👩‍👧‍👦', '🏳️‍🌈', '🇩🇪', '🇯🇵', '❤️', '☕', '1️⃣', '🧑🏿‍🚀', '✨', '⚠️', '🤷‍♀️'];
