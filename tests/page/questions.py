"""The questions that the page's tests ask."""

SHORT = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
LONG = (
    "A bus has 29 people. A 2 get off. B 4 get off. C 9 get off. D 1 get on. E 9 get off. "
    "F 8 get on. How many people are on the bus?"
)
